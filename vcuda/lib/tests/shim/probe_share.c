/* The probe's commands for memory between processes. Handles travel as hexadecimal text through the test, descriptors through a socket. */
#include "probe.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int mailbox = -1;
static int descriptor = -1;

static void print_hex(CUresult result, const void *data, size_t size) {
    const unsigned char *bytes = data;
    printf("%d ", result);
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

static void read_hex(const char *text, void *data, size_t size) {
    unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        sscanf(text + 2 * i, "%2hhx", &bytes[i]);
}

/* ipcget I: "0 HANDLE" | ipcopen I HANDLE | ipcclose I */
static int do_ipcget(char **words) {
    CUipcMemHandle handle = {{0}};
    CUresult result = cuIpcGetMemHandle(&handle, pointers[index_of(words[1])]);
    print_hex(result, &handle, sizeof handle);
    return -1;
}
static int do_ipcopen(char **words) {
    CUipcMemHandle handle;
    read_hex(words[2], &handle, sizeof handle);
    return (int)cuIpcOpenMemHandle(&pointers[index_of(words[1])], handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}
static int do_ipcclose(char **words) {
    return (int)cuIpcCloseMemHandle(pointers[index_of(words[1])]);
}

/* poolexport I: "0 DATA" | poolimport I DATA; the pool's descriptor goes through the mailbox */
static int do_poolexport(char **words) {
    CUmemPoolPtrExportData data = {{0}};
    CUresult result = cuMemPoolExportPointer(&data, pointers[index_of(words[1])]);
    print_hex(result, &data, sizeof data);
    return -1;
}
static int do_poolimport(char **words) {
    CUmemPoolPtrExportData data;
    read_hex(words[2], &data, sizeof data);
    CUresult result = CUDA_SUCCESS;
    if (!pool)
        result = cuMemPoolImportFromShareableHandle(&pool, (void *)(size_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return (int)(result ? result : cuMemPoolImportPointer(&pointers[index_of(words[1])], pool, &data));
}

static struct sockaddr_un address_of(const char *name, socklen_t *length) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name); /* abstract: nothing to clean up */
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    return address;
}

/* mailbox NAME: descriptors sent to NAME come here */
static int do_mailbox(char **words) {
    socklen_t length;
    struct sockaddr_un address = address_of(words[1], &length);
    close(mailbox);
    mailbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return bind(mailbox, (struct sockaddr *)&address, length) == 0 ? 0 : 1000;
}

static int post(const char *name, int fd) {
    char byte = 'f', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    socklen_t length;
    struct sockaddr_un address = address_of(name, &length);
    struct msghdr message = {.msg_name = &address, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    long sent = sendmsg(from, &message, 0);
    close(from);
    close(fd);
    return sent == 1 ? 0 : 1000;
}

/* vmmexport I NAME | poolpost NAME: export and send to a mailbox */
static int do_vmmexport(char **words) {
    int fd;
    CUresult result = cuMemExportToShareableHandle(&fd, physical[index_of(words[1])], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return result ? (int)result : post(words[2], fd);
}
static int do_poolpost(char **words) {
    int fd;
    CUresult result = cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return result ? (int)result : post(words[1], fd);
}

/* fetch: take a descriptor out of the mailbox | vmmimport I: import it | drop: close it */
static int do_fetch(char **words) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    (void)words;
    if (recvmsg(mailbox, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        return 1000;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return 0;
}
static int do_vmmimport(char **words) {
    return (int)cuMemImportFromShareableHandle(&physical[index_of(words[1])], (void *)(size_t)descriptor,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}
static int do_drop(char **words) {
    (void)words;
    return close(descriptor) == 0 ? 0 : 1000;
}

/* vmmshared I DEVICE BYTES: physical memory that may be exported */
static int do_vmmshared(char **words) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)number(words[2])}};
    return (int)cuMemCreate(&physical[index_of(words[1])], number(words[3]), &prop, 0);
}

const struct command share_commands[] = {
    {"ipcget", do_ipcget}, {"ipcopen", do_ipcopen}, {"ipcclose", do_ipcclose}, {"poolexport", do_poolexport},
    {"poolimport", do_poolimport}, {"mailbox", do_mailbox}, {"vmmexport", do_vmmexport}, {"poolpost", do_poolpost},
    {"fetch", do_fetch}, {"vmmimport", do_vmmimport}, {"drop", do_drop}, {"vmmshared", do_vmmshared}, {NULL, NULL},
};
