/* Every door by which a program comes to a function of the driver: doors PATH_OF_LIBRARY prints "DOOR WHERE" per line, WHERE as in route.c.
 * Other uses: doors again PROGRAM ARGS... executes another program after loading the driver; doors daemon runs what follows as an orphan of
 * its own session; doors environment says whether cuInit left the environment, the mask and the signals as they were; doors exit launches and
 * frees in threads and handlers that run while the program ends; doors checkpoint goes through the states of a checkpoint. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef SANITIZED
#define DEEPBIND 0 /* a sanitizer's runtime ends programs that ask for it */
#else
#define DEEPBIND RTLD_DEEPBIND
#endif

extern char **environ;

static const char *where(void *function) {
    static char text[256];
    Dl_info info;
    if (!function || !dladdr(function, &info) || !info.dli_sname)
        return "-";
    snprintf(text, sizeof text, "%s:%s", strstr(info.dli_fname, "/driver/") ? "driver" : "shim", info.dli_sname);
    return text;
}

static void say(const char *door, void *function) {
    printf("%s %s\n", door, where(function));
}

static int show(const char *path) {
    const char *name = "cuMemAlloc_v2";
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *other = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    void *deep = dlopen("libcuda.so.1", RTLD_NOW | DEEPBIND), *function = NULL;
    CUdriverProcAddressQueryResult status;
    say("link", (void *)cuMemAlloc_v2);
    say("name", dlsym(handle, name));
    say("path", other ? dlsym(other, name) : NULL);
    say("deepbind", dlsym(deep, name));
    say("default", dlsym(RTLD_DEFAULT, name));
    say("next", dlsym(RTLD_NEXT, name));
    say("next-again", dlsym(RTLD_NEXT, name));
    say("versioned", dlvsym(handle, name, "libcuda.so.1"));
    say("unhooked", dlsym(handle, "cuDeviceGetName"));
    /* As the CUDA runtime does it, which is often linked statically: one symbol by dlsym, all others through it. */
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = NULL;
    *(void **)&get = dlsym(handle, "cuGetProcAddress_v2");
    if (get && get("cuMemAlloc", &function, 12000, 0, &status) == CUDA_SUCCESS)
        say("runtime", function);
    if (get && get("cuGetProcAddress", &function, 12000, 0, &status) == CUDA_SUCCESS)
        say("runtime-itself", function);
    printf("one-handle %s\n", handle == other && handle == deep ? "yes" : "no");
    return 0;
}

static int orphan(char **words) {
    pid_t child = fork();
    if (child > 0)
        _exit(0);
    setsid();
    child = fork();
    if (child > 0)
        _exit(0);
    execv(words[0], words);
    return 1;
}

static int environment(void) {
    char before[65536] = "", after[65536] = "";
    struct sigaction old[65], now[65];
    sigset_t mask, mask_now;
    int same = 1;
    mode_t umasked = umask(0);
    umask(umasked);
    for (char **word = environ; *word; word++)
        strncat(before, *word, sizeof before - strlen(before) - 1);
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &old[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CUcontext context;
    CUdeviceptr pointer;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc_v2(&pointer, 1 << 20))
        return 2;
    for (char **word = environ; *word; word++)
        strncat(after, *word, sizeof after - strlen(after) - 1);
    for (int i = 1; i < 65; i++) {
        sigaction(i, NULL, &now[i]);
        same &= old[i].sa_handler == now[i].sa_handler;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask_now);
    mode_t umasked_now = umask(0);
    same &= strcmp(before, after) == 0 && memcmp(&mask, &mask_now, sizeof mask) == 0 && umasked == umasked_now;
    puts(same ? "same" : "changed");
    return 0;
}

/* ---- work while the program ends ---- */

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry quick()\n{\n ret;\n}\n";
static CUcontext shared;
static CUfunction quick;
static CUdeviceptr kept;
static pthread_key_t key;

static void in_thread_destructor(void *unused) {
    (void)unused;
    if (cuLaunchKernel(quick, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
        _exit(4);
}

static void *launch_and_end(void *unused) {
    (void)unused;
    pthread_setspecific(key, &key);
    for (int i = 0; i < 100; i++)
        if (cuCtxSetCurrent(shared) || cuLaunchKernel(quick, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, NULL))
            _exit(5);
    return NULL;
}

static void *launch_for_ever(void *unused) {
    (void)unused;
    cuCtxSetCurrent(shared);
    for (;;)
        if (cuLaunchKernel(quick, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
            return NULL;
}

static void at_exit(void) {
    if (cuMemFree_v2(kept) || cuCtxSynchronize())
        _exit(6);
    puts("ended");
    fflush(stdout);
}

static int end_busy(void) {
    CUmodule module;
    pthread_t threads[8], busy;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&shared, 0) || cuCtxSetCurrent(shared) || cuMemAlloc_v2(&kept, 64 << 20) ||
        cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&quick, module, "quick"))
        return 2;
    pthread_key_create(&key, in_thread_destructor);
    atexit(at_exit);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, launch_and_end, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    pthread_create(&busy, NULL, launch_for_ever, NULL);
    pthread_detach(busy);
    return 0;
}

static int checkpoint(void) {
    CUprocessState state = CU_PROCESS_STATE_FAILED;
    int pid = (int)getpid();
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&shared, 0) || cuCtxSetCurrent(shared) || cuMemAlloc_v2(&kept, 64 << 20))
        return 2;
    CUresult results[] = {cuCheckpointProcessLock(pid, NULL), cuCheckpointProcessCheckpoint(pid, NULL),
                          cuCheckpointProcessGetState(pid, &state), cuCheckpointProcessRestore(pid, NULL),
                          cuCheckpointProcessUnlock(pid, NULL)};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        printf("%d ", (int)results[i]);
    printf("%d %s\n", (int)state, where((void *)cuCheckpointProcessLock));
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "again") == 0) {
        if (cuInit(0))
            return 2;
        execv(argv[2], argv + 2);
        return 3;
    }
    if (strcmp(what, "daemon") == 0)
        return orphan(argv + 2);
    if (strcmp(what, "environment") == 0)
        return environment();
    if (strcmp(what, "exit") == 0)
        return end_busy();
    if (strcmp(what, "checkpoint") == 0)
        return checkpoint();
    return show(what);
}
