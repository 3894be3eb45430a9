/* A member of a closed process group of corosync, in the roles of the bench.
 *
 *     cpg ROLE NUMBER BOARD GROUP PROBES
 *
 * The counters are those of src/hopring/bench/harness/workload.py, slot by slot. A sender is a member and receives too.
 * Messages begin with a mark of 32 bits, sequence * 8 + sender; the CRC-32 over all marks is the order. */
#include <corosync/cpg.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { STOP, GO, WINDOW, SIZE, SENDERS, RECEIVERS, BURST, SENT = 8, RECEIVED = 16, ORDER = 24, READY = 32 };
enum { PLACES = 8, SLOTS = 64, WARM = 100, MESSAGE_BYTES_MAX = 1 << 18 };

static volatile int64_t *board;
static const char *role;
static int number;
static cpg_handle_t handle;
static struct pollfd readable;
static size_t members;
static int64_t received;
static uint32_t order;
static int came_back;
static char body[MESSAGE_BYTES_MAX];

static int is(const char *word) { return strcmp(role, word) == 0; }

static void dispatch(int wait_ms) {
    poll(&readable, 1, wait_ms);
    if (cpg_dispatch(handle, CS_DISPATCH_ALL) != CS_OK) exit(3);
}

/* Probes and answers have a letter behind the mark. */
static int put(size_t size) {
    struct iovec vector = {body, size};
    return cpg_mcast_joined(handle, CPG_TYPE_AGREED, &vector, 1) == CS_OK;
}

static void put_letter(char letter) {
    body[4] = letter;
    while (!put(board[SIZE])) dispatch(0);
}

static void deliver(cpg_handle_t h, const struct cpg_name *group, uint32_t node, uint32_t pid, void *data, size_t size) {
    (void)h, (void)group, (void)node, (void)pid, (void)size;
    if (is("receive")) {
        order = crc32(order, data, 4);
        board[ORDER + number] = order;
        board[RECEIVED + number] = ++received;
    } else if (is("answer") && number == 0 && ((char *)data)[4] == '?') {
        put_letter('!');
    } else if (is("ping") && ((char *)data)[4] == '!') {
        came_back = 1;
    }
}

static void changed(cpg_handle_t h, const struct cpg_name *group, const struct cpg_address *now, size_t count,
                    const struct cpg_address *left, size_t lefts, const struct cpg_address *joined, size_t joins) {
    (void)h, (void)group, (void)now, (void)left, (void)lefts, (void)joined, (void)joins;
    members = count;
}

static void join(const char *name) {
    cpg_callbacks_t callbacks = {deliver, changed};
    struct cpg_name group = {strlen(name), ""};
    strncpy(group.value, name, CPG_MAX_NAME_LENGTH - 1);
    while (cpg_initialize(&handle, &callbacks) != CS_OK) usleep(100000);
    while (cpg_join(handle, &group) != CS_OK) usleep(100000);
    cpg_fd_get(handle, &readable.fd);
    readable.events = POLLIN;
    while (members < (size_t)board[RECEIVERS] + is("ping")) dispatch(100);
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void ping(int probes) {
    for (int at = -WARM; at < probes; at++) {
        double begin = now_us();
        came_back = 0;
        put_letter('?');
        while (!came_back) dispatch(1000);
        if (at >= 0) printf("%s%.1f", at ? ", " : "[", now_us() - begin);
    }
    printf("]\n");
}

static int has_room(void) {
    int64_t slowest = board[RECEIVED], sent = 0;
    for (int at = 1; at < board[RECEIVERS]; at++)
        if (board[RECEIVED + at] < slowest) slowest = board[RECEIVED + at];
    for (int at = 0; at < PLACES; at++) sent += board[SENT + at];
    return sent - slowest + board[BURST] <= board[WINDOW];
}

/* Whether anything went out. */
static int burst(void) {
    int64_t sent = board[SENT + number], goal = sent + board[BURST];
    if (!has_room()) return 0;
    while (sent < goal) {
        uint32_t mark = sent * PLACES + number;
        memcpy(body, &mark, 4);
        if (!put(board[SIZE])) break;
        board[SENT + number] = ++sent;
    }
    return sent > goal - board[BURST];
}

int main(int count, char **words) {
    if (count != 6) return 2;
    role = words[1], number = atoi(words[2]);
    board = mmap(0, SLOTS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, open(words[3], O_RDWR), 0);
    if (board == MAP_FAILED) return 2;
    if (is("ping")) {
        join(words[4]);
        ping(atoi(words[5]));
        return 0;
    }
    /* Who answers is ready before the one who probes has come, so it does not wait for that one. */
    join(words[4]);
    board[READY + number] = 1;
    int sends = is("receive") && number < board[SENDERS];
    for (;;) {
        int busy = sends && board[GO] && !board[STOP] && burst();
        dispatch(busy ? 0 : sends ? 1 : 100);
    }
}
