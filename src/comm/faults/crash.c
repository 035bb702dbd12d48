/* Text and addresses for the report of a crash.  Called by the handler of abort_hook.c, on the thread that
 * the signal came to. */
#include "comm/faults/crash.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

/* A program that is linked statically has neither: then addresses have no names, or there are none. */
#pragma weak dladdr
#pragma weak backtrace

/* ---- text ---- */

static void put_bytes(lk__crash_text *t, const char *bytes, size_t n)
{
    size_t room = sizeof t->at - 1 - t->used;
    n = n < room ? n : room;
    for (size_t i = 0; i < n;
         i++) { /* names come from the program, and may have anything in them */
        unsigned char c = (unsigned char)bytes[i];
        t->at[t->used++] = (char)(c >= ' ' || c == '\n' ? c : '?');
    }
    t->at[t->used] = '\0';
}

void lk__crash_put(lk__crash_text *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

static void put_number(lk__crash_text *t, uint64_t value, unsigned base)
{
    char digits[24];
    size_t n = sizeof digits;
    do
        digits[--n] = "0123456789abcdef"[value % base];
    while ((value /= base) > 0);
    put_bytes(t, digits + n, sizeof digits - n);
}

void lk__crash_put_int(lk__crash_text *t, int64_t value)
{
    if (value < 0)
        lk__crash_put(t, "-");
    put_number(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

void lk__crash_put_hex(lk__crash_text *t, uintptr_t value)
{
    lk__crash_put(t, "0x");
    put_number(t, value, 16);
}

void lk__crash_write(lk__crash_text *t, int fd)
{
    const char *at = t->at;
    while (fd >= 0 && t->used > 0) {
        ssize_t n = write(fd, at, t->used);
        if (n <= 0)
            break;
        at += n;
        t->used -= (size_t)n;
    }
    *t = (lk__crash_text){.used = 0};
}

/* ---- what it was ---- */

const char *lk__signal_name(int sig)
{
    return sig == SIGSEGV   ? "SIGSEGV"
           : sig == SIGBUS  ? "SIGBUS"
           : sig == SIGFPE  ? "SIGFPE"
           : sig == SIGILL  ? "SIGILL"
           : sig == SIGABRT ? "SIGABRT"
                            : "a signal";
}

void lk__crash_put_cause(lk__crash_text *t, int sig, const siginfo_t *info)
{
    bool own = info->si_code > 0;
    if (own && (sig == SIGSEGV || sig == SIGBUS)) {
        lk__crash_put(t, " at address ");
        lk__crash_put_hex(t, (uintptr_t)info->si_addr);
    } else if (own && sig == SIGFPE && info->si_code == FPE_INTDIV) {
        lk__crash_put(t, " (an integer was divided by zero)");
    } else if (!own && info->si_pid > 0 && info->si_pid != getpid()) {
        lk__crash_put(t, " sent by process ");
        lk__crash_put_int(t, info->si_pid);
    }
}

void lk__crash_put_doing(lk__crash_text *t, const lk__world *w)
{
    lk__board_entry s;
    lk__slot_read(w->board[w->rank], &s);
    const lk__label *call = lk__board_entry_call(&s);
    bool inside = s.status.state == LK_STATE_CALLING;
    if (s.status.state == LK_STATE_UNKNOWN)
        return;
    if (call->h.call == LK_CALL_NONE) {
        lk__crash_put(t, " before its first call");
        return;
    }
    lk__crash_put(t, inside ? " in " : " after ");
    lk__crash_put(t, lk_comm_call_name(call->h.call));
    lk__crash_put(t, "(\"");
    lk__crash_put(t, call->name);
    lk__crash_put(t, "\")");
    if (call->h.kind == LK_KIND_COLLECTIVE) {
        lk__crash_put(t, " #");
        lk__crash_put_int(t, call->h.sequence);
    }
}

/* ---- where ---- */

/* The module that an address is in: where it begins, 0 if that is not known. */
static uintptr_t module_of(void *address, Dl_info *out)
{
    *out = (Dl_info){.dli_fname = NULL};
    if (!dladdr || !dladdr(address, out) || !out->dli_fname)
        return 0;
    return (uintptr_t)out->dli_fbase;
}

void lk__crash_put_address(lk__crash_text *t, void *address)
{
    Dl_info in;
    uintptr_t at = (uintptr_t)address, begin = module_of(address, &in);
    if (begin == 0) {
        lk__crash_put_hex(t, at);
        return;
    }
    const char *slash = strrchr(in.dli_fname, '/');
    if (in.dli_sname) {
        lk__crash_put(t, in.dli_sname);
        lk__crash_put(t, "+");
        lk__crash_put_hex(t, at - (uintptr_t)in.dli_saddr);
        lk__crash_put(t, " (");
    }
    lk__crash_put(t, slash ? slash + 1 : in.dli_fname);
    lk__crash_put(t, "+");
    lk__crash_put_hex(t, at - begin);
    lk__crash_put(t, in.dli_sname ? ")" : "");
}

/* Where the signal came: the next instruction, or the one that did it; NULL if that is not known. */
static void *instruction_of(const void *context)
{
    const ucontext_t *c = context;
#if defined __x86_64__
    return (void *)(uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (void *)(uintptr_t)c->uc_mcontext.pc;
#else
    (void)c;
    return NULL;
#endif
}

void lk__crash_prepare(void)
{
    void *one[1];
    if (backtrace)
        (void)backtrace(one, 1);
}

/* Where the C library begins; 0 if it is no module of its own. */
static uintptr_t library_find(void)
{
    Dl_info in;
    uintptr_t library = module_of((void *)(uintptr_t)abort, &in);
    return library == module_of((void *)(uintptr_t)lk__crash_walk, &in) ? 0 : library;
}

void lk__crash_walk(const void *context, lk__crash_frames *out)
{
    Dl_info in;
    void *instruction = instruction_of(context);
    int n = backtrace ? backtrace(out->at, LK_CRASH_FRAMES) : 0, first = 0;
    uintptr_t library = library_find();
    while (first < n && out->at[first] != instruction)
        first++;
    if (first == n) { /* the walk did not come by: a function that was not there was called, say */
        memmove(out->at + 1, out->at, sizeof out->at - sizeof *out->at);
        out->at[0] = instruction;
        n = n < LK_CRASH_FRAMES ? n + 1 : LK_CRASH_FRAMES;
        first = 0;
    }
    out->n = n - first;
    memmove(out->at, out->at + first, (size_t)out->n * sizeof *out->at);
    out->place = 0;
    while (out->place < out->n && library != 0 && module_of(out->at[out->place], &in) == library)
        out->place++;
    if (out->place == out->n)
        out->place = 0;
}
