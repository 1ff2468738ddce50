/* Memory and events between processes: charged once, on the card until the last holder of the last process has let go. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define CONTEXT (256 * MIB)

static int wire[2]; /* exporter at 0, importer at 1 */

static void send_bytes(int side, const void *data, size_t size) { EQUAL(write(wire[side], data, size), size); }
static void receive_bytes(int side, void *data, size_t size) { EQUAL(recv(wire[side], data, size, MSG_WAITALL), size); }
static void say(int side) { send_bytes(side, "x", 1); }
static void hear(int side) {
  char byte;
  receive_bytes(side, &byte, 1);
}

static void send_fd(int side, int fd) {
  char byte = 'f', room[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  EQUAL(sendmsg(wire[side], &message, 0), 1);
}

static int receive_fd(int side) {
  char byte, room[CMSG_SPACE(sizeof(int))];
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  int fd;
  EQUAL(recvmsg(wire[side], &message, 0), 1);
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

static uint32_t word_at(CUdeviceptr pointer) {
  uint32_t word = 0;
  OK(cuMemcpyDtoH(&word, pointer, sizeof word));
  return word;
}

/* ---- cuIpc ---- */

static void ipc_exporter(int index) {
  CUdeviceptr large, small, other;
  CUipcMemHandle handle;
  (void)index;
  use_device(0);
  OK(cuMemAlloc(&large, 64 * MIB));
  OK(cuMemAlloc(&other, 1000));
  OK(cuMemAlloc(&small, 1000));
  OK(cuMemsetD32(large + 4096, 0xfeed, 1));
  OK(cuMemsetD32(small, 0xbeef, 1));
  OK(cuIpcGetMemHandle(&handle, large));
  EQUAL(word_at(large + 4096), 0xfeed);
  EQUAL(word_at(large), 0);
  send_bytes(0, &handle, sizeof handle);
  EQUAL(cuIpcOpenMemHandle(&other, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuIpcGetMemHandle(&handle, small));
  send_bytes(0, &handle, sizeof handle);
  hear(0);
  OK(cuMemsetD32(large, 0xcafe, 1));
  say(0);
  hear(0); /* and now it ends without a word */
}

static void ipc_importer(int index) {
  CUdeviceptr large, again, small;
  CUipcMemHandle first, second;
  CUdeviceptr base;
  size_t size;
  (void)index;
  use_device(0);
  receive_bytes(1, &first, sizeof first);
  receive_bytes(1, &second, sizeof second);
  EQUAL(node_used(0), 2 * CONTEXT + 66 * MIB);
  EQUAL(cuIpcOpenMemHandle(&large, first, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuIpcOpenMemHandle(&large, first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcOpenMemHandle(&again, first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EQUAL(again, large);
  OK(cuIpcOpenMemHandle(&small, second, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuMemGetAddressRange(&base, &size, large));
  EQUAL(size, 64 * MIB);
  EQUAL(node_used(0), 2 * CONTEXT + 66 * MIB); /* once */
  EQUAL(word_at(large + 4096), 0xfeed);
  EQUAL(word_at(small), 0xbeef);
  say(1);
  hear(1);
  EQUAL(word_at(large), 0xcafe); /* one memory */
  EQUAL(cuMemFree(large), CUDA_ERROR_INVALID_VALUE);
  say(1);
}

/* The exporter ends while the importer holds on. */
static void ipc_importer_outlives(int index) {
  CUdeviceptr large, small;
  CUipcMemHandle first, second;
  (void)index;
  use_device(0);
  receive_bytes(1, &first, sizeof first);
  receive_bytes(1, &second, sizeof second);
  OK(cuIpcOpenMemHandle(&large, first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  say(1);
  hear(1);
  say(1);
  hear(1);                                  /* the exporter has ended */
  EQUAL(node_used(0), CONTEXT + 64 * MIB);  /* its small page and its context went, the opened memory stays */
  EQUAL(word_at(large), 0xcafe);
  EQUAL(cuIpcOpenMemHandle(&small, second, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
  OK(cuIpcCloseMemHandle(large));
  EQUAL(node_used(0), CONTEXT);
  EQUAL(cuIpcCloseMemHandle(large), CUDA_ERROR_INVALID_VALUE);
}

/* ---- virtual memory management ---- */

static const CUmemAllocationProp exportable = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUdeviceptr map(CUmemGenericAllocationHandle physical, uint64_t bytes) {
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  OK(cuMemMap(address, bytes, 0, physical, 0));
  OK(cuMemSetAccess(address, bytes, &read_write, 1));
  return address;
}

static void vmm_exporter(int index) {
  CUmemGenericAllocationHandle physical;
  CUdeviceptr address;
  int fd;
  (void)index;
  use_device(0);
  OK(cuMemCreate(&physical, 32 * MIB, &exportable, 0));
  address = map(physical, 32 * MIB);
  OK(cuMemsetD32(address, 0xabcd, 1));
  OK(cuMemExportToShareableHandle(&fd, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  send_fd(0, fd);
  close(fd);
  hear(0);
  OK(cuMemUnmap(address, 32 * MIB));
  OK(cuMemRelease(physical));
  EQUAL(node_used(0), 2 * CONTEXT + 32 * MIB); /* the other one still maps it */
  say(0);
  hear(0);
}

static void vmm_importer(int index) {
  CUmemGenericAllocationHandle physical, twice;
  CUmemAllocationProp prop;
  CUdeviceptr address;
  int fd;
  (void)index;
  use_device(0);
  fd = receive_fd(1);
  OK(cuMemImportFromShareableHandle(&physical, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  OK(cuMemImportFromShareableHandle(&twice, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  OK(cuMemGetAllocationPropertiesFromHandle(&prop, physical));
  EQUAL(prop.location.id, 0);
  OK(cuMemRelease(twice));
  address = map(physical, 32 * MIB);
  OK(cuMemRelease(physical));
  EQUAL(word_at(address), 0xabcd);
  EQUAL(node_used(0), 2 * CONTEXT + 32 * MIB);
  say(1);
  hear(1);
  OK(cuMemUnmap(address, 32 * MIB));
  EQUAL(node_used(0), 2 * CONTEXT + 32 * MIB); /* the descriptor is a holder too */
  close(fd);
  EQUAL(node_used(0), 2 * CONTEXT);
  EQUAL(cuMemImportFromShareableHandle(&physical, (void *)(intptr_t)wire[1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_ERROR_INVALID_VALUE);
  say(1);
}

/* ---- pools ---- */

static void pool_exporter(int index) {
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemPoolPtrExportData data;
  CUmemoryPool pool;
  CUdeviceptr a, b;
  int fd;
  (void)index;
  use_device(0);
  OK(cuMemPoolCreate(&pool, &props));
  OK(cuMemAllocFromPoolAsync(&a, 1000, pool, NULL));
  OK(cuMemAllocFromPoolAsync(&b, 1000, pool, NULL));
  OK(cuMemsetD32(b, 0x77, 1));
  OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  send_fd(0, fd);
  OK(cuMemPoolExportPointer(&data, b));
  send_bytes(0, &data, sizeof data);
  hear(0);
}

static void pool_importer(int index) {
  CUmemPoolPtrExportData data;
  CUmemoryPool pool;
  CUdeviceptr pointer, none;
  (void)index;
  use_device(0);
  OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)receive_fd(1), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  receive_bytes(1, &data, sizeof data);
  OK(cuMemPoolImportPointer(&pointer, pool, &data));
  EQUAL(word_at(pointer), 0x77);
  EQUAL(cuMemAllocFromPoolAsync(&none, 1000, pool, NULL), CUDA_ERROR_INVALID_VALUE);
  EQUAL(node_used(0), 2 * CONTEXT + 2 * MIB);
  OK(cuMemFreeAsync(pointer, NULL));
  OK(cuStreamSynchronize(NULL));
  say(1);
}

/* ---- events ---- */

static void event_exporter(int index) {
  CUipcEventHandle handle;
  CUevent event;
  (void)index;
  use_device(0);
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  EQUAL(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_INVALID_VALUE);
  OK(cuEventDestroy(event));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK(cuIpcGetEventHandle(&handle, event));
  launch_busy(busy_kernel(), 5 * MS, NULL);
  OK(cuEventRecord(event, NULL));
  send_bytes(0, &handle, sizeof handle);
  hear(0);
  OK(cuEventDestroy(event));
  say(0);
  hear(0);
}

static void event_importer(int index) {
  CUipcEventHandle handle;
  CUevent event;
  (void)index;
  use_device(0);
  receive_bytes(1, &handle, sizeof handle);
  OK(cuIpcOpenEventHandle(&event, handle));
  OK(cuEventSynchronize(event));
  CHECK(node_now() >= 5 * MS);
  OK(cuStreamWaitEvent(NULL, event, 0));
  say(1);
  hear(1);
  EQUAL(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventDestroy(event));
  say(1);
}

static void together(void (*exporter)(int), void (*importer)(int)) {
  pid_t a, b;
  EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, wire), 0);
  a = begin_child(exporter, 0);
  b = begin_child(importer, 1);
  close(wire[1]);
  EQUAL(end_child(a), 0);
  send(wire[0], "x", 1, MSG_NOSIGNAL); /* for an importer that waits for that */
  EQUAL(end_child(b), 0);
  close(wire[0]);
  EQUAL(node_used(0), 0);
}

int main(void) {
  make_node("--cards h100");
  together(ipc_exporter, ipc_importer);
  together(ipc_exporter, ipc_importer_outlives);
  together(vmm_exporter, vmm_importer);
  together(pool_exporter, pool_importer);
  together(event_exporter, event_importer);
  return 0;
}
