/* A monitoring program of a tenant: nvmlprobe WHAT CARD (index or UUID) prints numbers on one line. WHAT: cards, memory, memory2, wrongversion, utilisation,
 * processes1, processes2, processes3, size, graphics, samples, samples2, canary, fields, parts, ways, call NAME..., where NAME.... Knows nothing of the limiting library. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 };

static nvmlDevice_t device;

static void memory(void) {
    nvmlMemory_t m = {0};
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &m);
    printf("%d %llu %llu %llu\n", result, m.total, m.free, m.used);
}

static void memory2(unsigned int version) {
    nvmlMemory_v2_t m = {.version = version};
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo_v2(device, &m);
    printf("%d %llu %llu %llu %llu\n", result, m.total, m.free, m.used, m.reserved);
}

static void utilisation(void) {
    nvmlUtilization_t u = {0};
    nvmlReturn_t result = nvmlDeviceGetUtilizationRates(device, &u);
    printf("%d %u %u\n", result, u.gpu, u.memory);
}

static void processes1(void) {
    nvmlProcessInfo_v1_t infos[ROOM];
    unsigned int count = ROOM;
    printf("%d", nvmlDeviceGetComputeRunningProcesses(device, &count, infos));
    for (unsigned int i = 0; i < count; i++)
        printf(" %u %llu", infos[i].pid, infos[i].usedGpuMemory);
    puts("");
}

static void processes2(int version) {
    nvmlProcessInfo_v2_t infos[ROOM];
    unsigned int count = ROOM;
    printf("%d", version == 2 ? nvmlDeviceGetComputeRunningProcesses_v2(device, &count, infos)
                              : nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos));
    for (unsigned int i = 0; i < count; i++)
        printf(" %u %llu", infos[i].pid, infos[i].usedGpuMemory);
    puts("");
}

/* A buffer too small, none at all, and a guard after the last entry. */
static void size(void) {
    nvmlProcessInfo_t infos[1];
    unsigned int none = 0, one = 1;
    nvmlReturn_t empty = nvmlDeviceGetComputeRunningProcesses_v3(device, &none, NULL);
    nvmlReturn_t small = nvmlDeviceGetComputeRunningProcesses_v3(device, &one, infos);
    printf("%d %u %d %u %d\n", empty, none, small, one, nvmlDeviceGetComputeRunningProcesses_v3(device, NULL, infos));
}

static void canary(void) {
    unsigned char bytes[sizeof(nvmlProcessInfo_t) * 2 + 16];
    unsigned int count = 2, intact = 1;
    memset(bytes, 0xAB, sizeof bytes);
    nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, &count, (nvmlProcessInfo_t *)(void *)bytes);
    for (size_t i = count * sizeof(nvmlProcessInfo_t); i < sizeof bytes; i++)
        intact &= bytes[i] == 0xAB;
    printf("%d %u %u\n", result, count, intact);
}

static void graphics(void) {
    nvmlProcessInfo_t infos[ROOM];
    unsigned int count = ROOM;
    nvmlReturn_t result = nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, infos);
    printf("%d %u\n", result, count);
}

static void samples(void) {
    nvmlProcessUtilizationSample_t found[ROOM];
    unsigned int count = ROOM;
    printf("%d", nvmlDeviceGetProcessUtilization(device, found, &count, 0));
    for (unsigned int i = 0; i < count; i++)
        printf(" %u", found[i].pid);
    puts("");
}

/* The same by the newer call. */
static void samples2(void) {
    nvmlProcessUtilizationInfo_v1_t found[ROOM];
    nvmlProcessesUtilizationInfo_t info = {.version = nvmlProcessesUtilizationInfo_v1, .processSamplesCount = ROOM, .procUtilArray = found};
    printf("%d", nvmlDeviceGetProcessesUtilizationInfo(device, &info));
    for (unsigned int i = 0; i < info.processSamplesCount; i++)
        printf(" %u", found[i].pid);
    puts("");
}

/* Both counts, then what each index from 0 to 2 answers: the result, and the index that its handle has. */
static void cards(void) {
    unsigned int old = 0, all = 0, index;
    printf("%d %d", nvmlDeviceGetCount(&old), nvmlDeviceGetCount_v2(&all));
    printf(" %u %u", old, all);
    for (unsigned int i = 0; i < 3; i++) {
        nvmlReturn_t result = nvmlDeviceGetHandleByIndex_v2(i, &device);
        index = 99;
        if (result == NVML_SUCCESS)
            (void)nvmlDeviceGetIndex(device, &index);
        printf(" %d %u", result, index);
    }
    puts("");
}

/* Each of the named functions, called without any argument: for those that look at none. */
static void call(char **names) {
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    for (; *names; names++) {
        nvmlReturn_t (*function)(void) = NULL;
        *(void **)&function = dlsym(handle, *names);
        printf("%d ", function ? (int)function() : -1);
    }
    puts("");
}

/* Where each of the named functions lies: 0 in no library, 1 in front of the driver, 2 in the driver. */
static void where(char **names) {
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    for (; *names; names++) {
        Dl_info info;
        void *function = dlsym(handle, *names);
        printf("%d ", !function || !dladdr(function, &info) ? 0 : strstr(info.dli_fname, "/driver/") ? 2 : 1);
    }
    puts("");
}

/* One fact of the card, and two that count what everybody moved. */
static void fields(void) {
    nvmlFieldValue_t values[] = {{.fieldId = NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION}, {.fieldId = NVML_FI_DEV_PCIE_COUNT_TX_BYTES},
                                 {.fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX}};
    printf("%d", nvmlDeviceGetFieldValues(device, 3, values));
    for (int i = 0; i < 3; i++)
        printf(" %d", values[i].nvmlReturn);
    puts("");
}

/* The card's MIG devices, as far as they are shown: the result for each number, then the first one's memory, then the whole card's. */
static void parts(void) {
    nvmlDevice_t found[3];
    nvmlMemory_t m = {0}, whole = {0};
    nvmlReturn_t results[3];
    for (unsigned int i = 0; i < 3; i++)
        results[i] = nvmlDeviceGetMigDeviceHandleByIndex(device, i, &found[i]);
    printf("%d %d %d", results[0], results[1], results[2]);
    nvmlReturn_t first = results[0] ? results[0] : nvmlDeviceGetMemoryInfo(found[0], &m);
    printf(" %d %llu", first, m.total);
    printf(" %d\n", nvmlDeviceGetMemoryInfo(device, &whole));
}

/* The card found by all its names, and what each way answers. */
static void ways(void) {
    char uuid[96], serial[64];
    nvmlPciInfo_t pci;
    nvmlDevice_t again;
    nvmlReturn_t asked[] = {nvmlDeviceGetUUID(device, uuid, sizeof uuid), nvmlDeviceGetPciInfo_v3(device, &pci)};
    nvmlReturn_t by_serial = nvmlDeviceGetSerial(device, serial, sizeof serial) ? 0 : nvmlDeviceGetHandleBySerial(serial, &again);
    printf("%d %d %d %d %d %d\n", asked[0], asked[1], nvmlDeviceGetHandleByUUID(uuid, &again), nvmlDeviceGetHandleByPciBusId(pci.busId, &again),
           nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &again), by_serial);
}

static nvmlReturn_t find(const char *card) {
    return strncmp(card, "GPU-", 4) == 0 || strncmp(card, "MIG-", 4) == 0 ? nvmlDeviceGetHandleByUUID(card, &device)
                                         : nvmlDeviceGetHandleByIndex_v2((unsigned)atoi(card), &device);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    nvmlReturn_t found = nvmlInit_v2();
    if (!found)
        found = find(argc > 2 ? argv[2] : "0");
    if (found) {
        printf("%d\n", found);
        return 0;
    }
    if (strcmp(what, "memory") == 0)
        memory();
    else if (strcmp(what, "memory2") == 0)
        memory2(nvmlMemory_v2);
    else if (strcmp(what, "wrongversion") == 0)
        memory2(7);
    else if (strcmp(what, "utilisation") == 0)
        utilisation();
    else if (strcmp(what, "processes1") == 0)
        processes1();
    else if (strcmp(what, "processes2") == 0)
        processes2(2);
    else if (strcmp(what, "processes3") == 0)
        processes2(3);
    else if (strcmp(what, "size") == 0)
        size();
    else if (strcmp(what, "canary") == 0)
        canary();
    else if (strcmp(what, "graphics") == 0)
        graphics();
    else if (strcmp(what, "samples") == 0)
        samples();
    else if (strcmp(what, "samples2") == 0)
        samples2();
    else if (strcmp(what, "cards") == 0)
        cards();
    else if (strcmp(what, "call") == 0)
        call(argv + 3);
    else if (strcmp(what, "where") == 0)
        where(argv + 3);
    else if (strcmp(what, "fields") == 0)
        fields();
    else if (strcmp(what, "parts") == 0)
        parts();
    else if (strcmp(what, "ways") == 0)
        ways();
    nvmlShutdown();
    return 0;
}
