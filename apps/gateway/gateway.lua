-- What nginx does between a browser and a workload: ask the authoriser whether and whither, carry HTTP over kept connections,
-- carry websockets and ask again while they are open. Decides nothing itself and believes no header that a browser sent.
local balancer = require "ngx.balancer"
local lrucache = require "resty.lrucache"

local CACHE_SECONDS = 2 -- how long a yes holds for the same host and cookies; a no is never kept
local UNANSWERED_ROUNDS = 2 -- after so many rounds without an answer an open websocket is closed: a right that nobody confirms ends
local LONGEST_KEY = 4096 -- bytes of host and cookies for which an answer is remembered
local CHUNK = 65536 -- bytes
local HEAD_LIMIT = 32768 -- bytes of an answer's head; user code writes it, so it is bounded
local PONG = 10 -- opcode of the browser's own answer to a ping (RFC 6455), which shows nobody's activity

local answers = assert(lrucache.new(4000))
local options = {}
local NONE = {}
local M = {}

-- {authoriser = "unix:…", recheck_seconds, scheme, port}
function M.configure(given)
  options = given
end

-- Status line and headers, each line after "\r\n". nil and the problem where they do not come or are too long.
local function read_head(sock)
  local reader = sock:receiveuntil("\r\n\r\n")
  local head, problem = reader(HEAD_LIMIT)
  if not head then
    return nil, problem
  end
  if reader(1) then
    return nil, "head too large"
  end
  return head
end

local function exchange(question)
  local sock = ngx.socket.tcp()
  sock:settimeouts(2000, 5000, 15000)
  local ok, problem = sock:connect(options.authoriser)
  if not ok then
    return nil, problem, false
  end
  local reused = sock:getreusedtimes() > 0
  ok, problem = sock:send(question)
  local head
  if ok then
    head, problem = read_head(sock)
  end
  if not head then
    sock:close()
    return nil, problem, reused
  end
  sock:setkeepalive(30000, 64)
  return head
end

-- The authoriser's head lines as {status, host, port, cookie, authorization, headers}; `headers` is nil where there are no others.
local function parse(head)
  local answer = { status = tonumber(head:match("^HTTP/1%.1 (%d%d%d)")) }
  for name, value in head:gmatch("\r\n([%w-]+): ([^\r\n]*)") do
    name = name:lower()
    if name == "x-tessera-target" then
      local host, port = value:match("^(.+):(%d+)$")
      answer.host, answer.port = host, tonumber(port)
    elseif name == "x-tessera-cookie" then
      answer.cookie = value
    elseif name == "x-tessera-header" then
      local header, content = value:match("^([%w-]+): (.*)$")
      if header:lower() == "authorization" then
        answer.authorization = content
      else
        answer.headers = answer.headers or {}
        answer.headers[header] = content
      end
    end
  end
  return answer
end

-- `idle`: asked for an open websocket over which the person sent nothing. nil where the authoriser cannot be asked.
local function ask(idle)
  local var = ngx.var
  local question = table.concat({
    "GET /authorise HTTP/1.1\r\nHost: authoriser\r\nX-Tessera-Slug: ", var.slug,
    "\r\nCookie: ", var.http_cookie or "",
    "\r\nX-Tessera-Probe: ", var.http_x_tessera_probe or "",
    "\r\nX-Tessera-Idle: ", idle and "1" or "",
    "\r\n\r\n",
  })
  local head, problem, reused = exchange(question)
  if not head and reused and problem ~= "timeout" then -- the authoriser was restarted while the connection lay in the pool
    head, problem = exchange(question)
  end
  if not head then
    ngx.log(ngx.ERR, "the authoriser does not answer: ", problem)
    return nil
  end
  return parse(head)
end

local function key_of(var, idle)
  return var.slug .. (idle and "|idle|" or "||") .. (var.http_cookie or "")
end

-- The authoriser's answer, from memory while it is fresh. Probes carry their own proof and are asked every time.
local function answer_for(var, idle)
  if var.http_x_tessera_probe then
    return ask(idle)
  end
  local key = key_of(var, idle)
  local answer = answers:get(key)
  if not answer then
    answer = ask(idle)
    if answer and answer.status == 204 and #key < LONGEST_KEY then
      answers:set(key, answer, CACHE_SECONDS)
    end
  end
  return answer
end

-- Nothing answers at the remembered address: the workload may run at another one by now. Asked anew.
local function answer_anew(var)
  answers:delete(key_of(var, false))
  answers:delete(key_of(var, true))
  return answer_for(var, false)
end

-- The body is not awaited: who may not upload should not have to first.
local function refuse(status)
  ngx.req.discard_body()
  return ngx.exit(status)
end

-- The server's own checks against other sites' pages do not count here: it takes our secret for the person's own. So they are made
-- here, and a page of another notebook, which the browser counts as the same site, is another page too.
local function foreign(var)
  local origin = var.http_origin
  if not origin or origin == options.scheme .. "://" .. var.http_host then
    return false
  end
  local method = var.request_method
  return var.websocket == "1" or not (method == "GET" or method == "HEAD" or method == "OPTIONS")
end

local function address(answer)
  return answer.host .. ":" .. answer.port
end

-- nginx.conf says every other header that we set or drop.
local function let_pass(var, answer)
  var.workload_cookie = answer.cookie or ""
  var.workload_authorization = answer.authorization or ""
  for name, value in pairs(answer.headers or NONE) do
    ngx.req.set_header(name, value)
  end
  ngx.ctx.answer = answer
end

-- Before every request: lets it pass with the headers that the workload may see, or ends it with a status that nginx.conf explains.
function M.access()
  local var = ngx.var
  local host, named = var.host, var.http_host or ""
  if named:sub(1, #host):lower() ~= host or not named:find("^:?%d*$", #host + 1) then
    return refuse(400) -- an absolute address that contradicts its own Host header
  end
  local answer = answer_for(var, false)
  if not answer then
    return refuse(502)
  end
  if answer.status ~= 204 then
    return refuse(answer.status)
  end
  if foreign(var) then
    ngx.req.discard_body()
    ngx.status = 403
    ngx.header.content_type = "text/plain"
    ngx.say("Pages of other addresses may not do this.")
    return ngx.exit(403)
  end
  let_pass(var, answer)
end

-- After a request that reached nobody. A workload that was stopped and started again within the life of a remembered answer has
-- another address: what is safe to repeat goes there. Everything else is explained.
function M.again()
  local var = ngx.var
  local tried = (var.upstream_addr or ""):match("([^%s,]+)$")
  local answer = answer_anew(var)
  local safe = var.request_method == "GET" or var.request_method == "HEAD"
  if safe and tried and var.websocket ~= "1" and answer and answer.status == 204 and tried ~= address(answer) then
    return let_pass(var, answer)
  end
  return ngx.exec("/_tessera/explain", "cause=unreachable")
end

function M.balance()
  local answer = ngx.ctx.answer
  assert(balancer.set_current_peer(answer.host, answer.port))
end

-- Headers of the browser's that do not reach the workload: those of one connection (RFC 9110), a body that a websocket's request
-- never has, and those that we say ourselves.
local DROPPED = {
  connection = true, upgrade = true, ["keep-alive"] = true, te = true, trailer = true, host = true, expect = true,
  ["transfer-encoding"] = true, ["content-length"] = true, ["proxy-connection"] = true, ["proxy-authorization"] = true,
  cookie = true, authorization = true, forwarded = true, ["x-real-ip"] = true,
}

local function dropped(name)
  return DROPPED[name] or name:sub(1, 12) == "x-forwarded-" or name:sub(1, 10) == "x-tessera-"
end

local function opening(answer)
  local var = ngx.var
  local lines = {
    "GET " .. var.request_uri .. " HTTP/1.1",
    "Host: " .. var.http_host,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "X-Real-IP: " .. var.remote_addr,
    "X-Forwarded-For: " .. var.remote_addr,
    "X-Forwarded-Proto: " .. options.scheme,
    "X-Forwarded-Host: " .. var.http_host,
    "X-Forwarded-Port: " .. options.port,
  }
  lines[#lines + 1] = answer.cookie and "Cookie: " .. answer.cookie
  lines[#lines + 1] = answer.authorization and "Authorization: " .. answer.authorization
  for name, value in pairs(ngx.req.get_headers(0, true)) do
    if not dropped(name:lower()) then
      for _, one in ipairs(type(value) == "table" and value or { value }) do
        lines[#lines + 1] = name .. ": " .. tostring(one)
      end
    end
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

local function pump(from, to, seen)
  while true do
    local data = from:receiveany(CHUNK)
    if not data then
      return
    end
    if seen and data:byte(1) % 16 ~= PONG then
      seen.active = true
    end
    if not to:send(data) then
      return
    end
  end
end

-- Returns when the right to this websocket has ended.
local function watch(seen)
  local unanswered = 0
  while unanswered < UNANSWERED_ROUNDS do
    ngx.sleep(options.recheck_seconds)
    local answer = answer_for(ngx.var, not seen.active)
    seen.active = false
    if not answer then
      unanswered = unanswered + 1
    elseif answer.status == 204 then
      unanswered = 0
    else
      return
    end
  end
end

local DAY = 86400000 -- milliseconds

local function connect(answer)
  local upstream = ngx.socket.tcp()
  upstream:settimeouts(5000, 600000, 60000)
  if not upstream:connect(answer.host, answer.port) then
    return nil
  end
  return upstream
end

-- To the address that is remembered or, where nobody listens there any more, to the present one. nil where there is none.
local function reach(answer)
  local upstream = connect(answer)
  if upstream then
    return upstream, answer
  end
  local present = answer_anew(ngx.var)
  if present and present.status == 204 and address(present) ~= address(answer) then
    return connect(present), present
  end
end

-- A websocket: one connection to the workload for as long as both sides and the right to it last.
function M.relay()
  local upstream, answer = reach(ngx.ctx.answer)
  local head = upstream and upstream:send(opening(answer)) and read_head(upstream)
  if not head then
    return ngx.exit(502)
  end
  if not head:find("^HTTP/1%.1 101") then
    upstream:close()
    ngx.status = tonumber(head:match("^HTTP/1%.%d (%d%d%d)")) or 502
    ngx.header.content_type = "text/plain"
    ngx.say("The server refused the websocket.")
    return
  end
  local browser = assert(ngx.req.socket(true))
  browser:settimeouts(5000, 600000, DAY)
  upstream:settimeouts(5000, 600000, DAY)
  if browser:send(head .. "\r\n\r\n") then
    local seen = { active = true }
    local threads = {
      ngx.thread.spawn(pump, browser, upstream, seen),
      ngx.thread.spawn(pump, upstream, browser),
      ngx.thread.spawn(watch, seen),
    }
    ngx.thread.wait(unpack(threads))
    for _, thread in ipairs(threads) do
      ngx.thread.kill(thread)
    end
  end
  upstream:close()
end

return M
