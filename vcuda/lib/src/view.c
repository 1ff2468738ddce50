#include "view.h"

#include "ledger.h"

struct view view_of(struct region *region, int device, uint64_t card_total, uint64_t card_free) {
    const struct limits *limits = config_limits(region, device);
    if (!limits)
        return (struct view){0};
    struct view view = {.total = limits->memory_limited ? smaller(limits->memory_limit, card_total) : card_total};
    view.used = smaller(ledger_used(region, device), view.total);
    view.free = smaller(view.total - view.used, card_free);
    return view;
}
