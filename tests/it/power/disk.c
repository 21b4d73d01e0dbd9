/* A disk that can be cut off at any moment: every write to a database and its log is noted before it is made, and every
 * sync when it begins and when it has ended. From the notes a test makes what the disk would hold had the power failed.
 *
 * POWER_DATABASE is the database's absolute path, POWER_NOTES the file of the notes. A note is: kind (1 write, 2 truncate,
 * 3 sync begins, 4 sync has ended, 5 removed), file (0 database, 1 log), place (8 bytes; of a sync its number), length
 * (4 bytes), and the bytes that are written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int notes = -1;
static uint64_t syncs;
static char database[4096];
static char wal[4100];

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite64)(int, const void *, size_t, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate64)(int, off64_t);
static int (*real_unlink)(const char *);

static void ready(void) {
    if (real_write) return;
    real_pwrite64 = dlsym(RTLD_NEXT, "pwrite64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate64 = dlsym(RTLD_NEXT, "ftruncate64");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_write = dlsym(RTLD_NEXT, "write");
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWER_DATABASE"), *to = getenv("POWER_NOTES");
    ready();
    if (!path || !to) return;
    snprintf(database, sizeof database, "%s", path);
    snprintf(wal, sizeof wal, "%s-wal", path);
    notes = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int named(const char *path) {
    return strcmp(path, database) == 0 ? 0 : strcmp(path, wal) == 0 ? 1 : -1;
}

static int which(int fd) {
    char link[64], path[4100];
    if (notes < 0) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return -1;
    path[length] = 0;
    return named(path);
}

static void note(uint8_t kind, int file, uint64_t place, const void *bytes, uint32_t length) {
    uint8_t head[14] = {kind, (uint8_t)file};
    memcpy(head + 2, &place, 8);
    memcpy(head + 10, &length, 4);
    struct iovec both[2] = {{head, sizeof head}, {(void *)bytes, length}};
    if (writev(notes, both, length ? 2 : 1) != (ssize_t)(sizeof head + length)) abort();
}

ssize_t write(int fd, const void *bytes, size_t length) {
    ready();
    int file = which(fd);
    if (file < 0) return real_write(fd, bytes, length);
    pthread_mutex_lock(&one_at_a_time);
    note(1, file, (uint64_t)lseek(fd, 0, SEEK_CUR), bytes, (uint32_t)length);
    ssize_t done = real_write(fd, bytes, length);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t place) {
    ready();
    int file = which(fd);
    if (file < 0) return real_pwrite64(fd, bytes, length, place);
    pthread_mutex_lock(&one_at_a_time);
    note(1, file, (uint64_t)place, bytes, (uint32_t)length);
    ssize_t done = real_pwrite64(fd, bytes, length, place);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t place) {
    return pwrite64(fd, bytes, length, place);
}

static int synced(int fd, int (*real)(int)) {
    int file = which(fd);
    if (file < 0) return real(fd);
    pthread_mutex_lock(&one_at_a_time);
    uint64_t number = ++syncs;
    note(3, file, number, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    int done = real(fd);
    if (done == 0) {
        pthread_mutex_lock(&one_at_a_time);
        note(4, file, number, NULL, 0);
        pthread_mutex_unlock(&one_at_a_time);
    }
    return done;
}

int fsync(int fd) {
    ready();
    return synced(fd, real_fsync);
}

int fdatasync(int fd) {
    ready();
    return synced(fd, real_fdatasync);
}

int ftruncate64(int fd, off64_t length) {
    ready();
    int file = which(fd);
    if (file < 0) return real_ftruncate64(fd, length);
    pthread_mutex_lock(&one_at_a_time);
    note(2, file, (uint64_t)length, NULL, 0);
    int done = real_ftruncate64(fd, length);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int ftruncate(int fd, off_t length) {
    return ftruncate64(fd, length);
}

int unlink(const char *path) {
    ready();
    int file = notes < 0 ? -1 : named(path);
    if (file < 0) return real_unlink(path);
    pthread_mutex_lock(&one_at_a_time);
    note(5, file, 0, NULL, 0);
    int done = real_unlink(path);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}
