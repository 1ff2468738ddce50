/* A program of a tenant, driven line by line: reads one command per line, answers with one line. It is linked against libcuda.so.1 like any
 * CUDA program and knows nothing of the limiting library. `help` lists the commands. */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

CUdeviceptr pointers[HANDLES];
CUmemGenericAllocationHandle physical[HANDLES];
CUmemoryPool pool;
CUarray arrays[HANDLES];
static CUcontext context;

unsigned long long number(const char *text) {
    return text ? strtoull(text, NULL, 0) : 0;
}

int index_of(const char *text) {
    unsigned long long value = number(text);
    return value < HANDLES ? (int)value : 0;
}

/* init DEVICE */
static int do_init(char **words) {
    CUdevice device;
    CUresult result = cuInit(0);
    if (!result)
        result = cuDeviceGet(&device, (int)number(words[1]));
    if (!result)
        result = cuDevicePrimaryCtxRetain(&context, device);
    return (int)(result ? result : cuCtxSetCurrent(context));
}

/* retain DEVICE | release DEVICE | reset DEVICE */
static int do_retain(char **words) {
    return (int)cuDevicePrimaryCtxRetain(&context, (CUdevice)number(words[1]));
}
static int do_release(char **words) {
    return (int)cuDevicePrimaryCtxRelease((CUdevice)number(words[1]));
}
static int do_reset(char **words) {
    return (int)cuDevicePrimaryCtxReset((CUdevice)number(words[1]));
}

/* create DEVICE | destroy */
static int do_create(char **words) {
    return (int)cuCtxCreate(&context, 0, (CUdevice)number(words[1]));
}
static int do_destroy(char **words) {
    (void)words;
    return (int)cuCtxDestroy(context);
}

/* alloc I BYTES | managed I BYTES | pitch I WIDTH HEIGHT | free I | freeptr ADDRESS */
static int do_alloc(char **words) {
    return (int)cuMemAlloc(&pointers[index_of(words[1])], number(words[2]));
}
static int do_managed(char **words) {
    return (int)cuMemAllocManaged(&pointers[index_of(words[1])], number(words[2]), CU_MEM_ATTACH_GLOBAL);
}
static int do_pitch(char **words) {
    size_t pitch;
    return (int)cuMemAllocPitch(&pointers[index_of(words[1])], &pitch, number(words[2]), number(words[3]), 4);
}
static int do_free(char **words) {
    return (int)cuMemFree(pointers[index_of(words[1])]);
}
static int do_freeptr(char **words) {
    return (int)cuMemFree(number(words[1]));
}

/* async I BYTES | freeasync I | sync | trim | keep BYTES: release threshold of the default pool | poolalloc I BYTES | pooldestroy */
static int do_async(char **words) {
    return (int)cuMemAllocAsync(&pointers[index_of(words[1])], number(words[2]), NULL);
}
static int do_freeasync(char **words) {
    return (int)cuMemFreeAsync(pointers[index_of(words[1])], NULL);
}
static int do_sync(char **words) {
    (void)words;
    return (int)cuStreamSynchronize(NULL);
}
static int do_keep(char **words) {
    CUmemoryPool current;
    cuuint64_t threshold = number(words[1]);
    CUresult result = cuDeviceGetDefaultMemPool(&current, 0);
    return (int)(result ? result : cuMemPoolSetAttribute(current, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}
static int do_trim(char **words) {
    CUmemoryPool current;
    (void)words;
    CUresult result = cuDeviceGetDefaultMemPool(&current, 0);
    return (int)(result ? result : cuMemPoolTrimTo(current, 0));
}
static int do_poolalloc(char **words) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult result = pool ? CUDA_SUCCESS : cuMemPoolCreate(&pool, &props);
    return (int)(result ? result : cuMemAllocFromPoolAsync(&pointers[index_of(words[1])], number(words[2]), pool, NULL));
}
static int do_pooldestroy(char **words) {
    (void)words;
    CUresult result = cuMemPoolDestroy(pool);
    pool = NULL;
    return (int)result;
}

/* array I WIDTH HEIGHT | freearray I */
static int do_array(char **words) {
    CUDA_ARRAY_DESCRIPTOR descriptor = {number(words[2]), number(words[3]), CU_AD_FORMAT_FLOAT, 1};
    return (int)cuArrayCreate(&arrays[index_of(words[1])], &descriptor);
}
static int do_freearray(char **words) {
    return (int)cuArrayDestroy(arrays[index_of(words[1])]);
}

/* vmm I DEVICE BYTES | vmmrelease I | vmmmap I BYTES | vmmunmap I BYTES */
static int do_vmm(char **words) {
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)number(words[2])}};
    return (int)cuMemCreate(&physical[index_of(words[1])], number(words[3]), &prop, 0);
}
static int do_vmmrelease(char **words) {
    return (int)cuMemRelease(physical[index_of(words[1])]);
}
static int do_vmmmap(char **words) {
    int i = index_of(words[1]);
    CUresult result = cuMemAddressReserve(&pointers[i], number(words[2]), 0, 0, 0);
    return (int)(result ? result : cuMemMap(pointers[i], number(words[2]), 0, physical[i], 0));
}
static int do_vmmunmap(char **words) {
    return (int)cuMemUnmap(pointers[index_of(words[1])], number(words[2]));
}

/* info: "0 FREE TOTAL" | total DEVICE: "0 BYTES" */
static int do_info(char **words) {
    size_t free_bytes = 0, total = 0;
    (void)words;
    CUresult result = cuMemGetInfo(&free_bytes, &total);
    printf("%d %zu %zu\n", result, free_bytes, total);
    return -1;
}
static int do_total(char **words) {
    size_t total = 0;
    CUresult result = cuDeviceTotalMem(&total, (CUdevice)number(words[1]));
    printf("%d %zu\n", result, total);
    return -1;
}

/* todevice I BYTES | tohost I BYTES */
static char host[1 << 20];
static int do_todevice(char **words) {
    return (int)cuMemcpyHtoD(pointers[index_of(words[1])], host, number(words[2]));
}
static int do_tohost(char **words) {
    return (int)cuMemcpyDtoH(host, pointers[index_of(words[1])], number(words[2]));
}

/* fork BYTES: a child that makes its own context is not possible in CUDA; it tells what it can still do and exits */
static int do_fork(char **words) {
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr pointer;
        _exit(cuMemAlloc(&pointer, number(words[1])) == CUDA_SUCCESS ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* closefds: what a program does that makes a daemon of itself without forking first */
static int do_closefds(char **words) {
    (void)words;
    for (int fd = 3; fd < 1024; fd++) {
        char path[64], target[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length > 5 && strcmp(target + length - 5, "/lock") == 0)
            close(fd);
    }
    return 0;
}

static int do_pid(char **words) {
    (void)words;
    printf("%d\n", getpid());
    return -1;
}

static const struct command commands[] = {
    {"init", do_init}, {"retain", do_retain}, {"release", do_release}, {"reset", do_reset}, {"create", do_create},
    {"destroy", do_destroy}, {"alloc", do_alloc}, {"managed", do_managed}, {"pitch", do_pitch}, {"free", do_free},
    {"freeptr", do_freeptr}, {"async", do_async}, {"freeasync", do_freeasync}, {"sync", do_sync}, {"keep", do_keep},
    {"trim", do_trim}, {"poolalloc", do_poolalloc}, {"pooldestroy", do_pooldestroy}, {"array", do_array},
    {"freearray", do_freearray}, {"vmm", do_vmm}, {"vmmrelease", do_vmmrelease}, {"vmmmap", do_vmmmap},
    {"vmmunmap", do_vmmunmap}, {"todevice", do_todevice}, {"tohost", do_tohost}, {"info", do_info}, {"total", do_total},
    {"fork", do_fork}, {"closefds", do_closefds}, {"pid", do_pid}, {NULL, NULL},
};

static bool run(const struct command *list, char **words) {
    while (list->name && strcmp(list->name, words[0]) != 0)
        list++;
    int answer = list->name ? list->run(words) : -1;
    if (answer != -1)
        printf("%d\n", answer);
    return list->name != NULL;
}

static void obey(char *line) {
    char *words[12] = {NULL};
    int count = 0;
    for (char *word = strtok(line, " \n"); word && count < 11; word = strtok(NULL, " \n"))
        words[count++] = word;
    if (count && !run(commands, words) && !run(share_commands, words) && !run(memory_commands, words))
        printf("unknown\n");
}

int main(void) {
    char line[512];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin))
        obey(line);
    return 0;
}
