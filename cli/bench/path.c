/* Naming code paths, and warning of old ones. */
#include "bench/path.h"

#include <lockstep/extra/isa.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The best instruction set of this processor that we know of. */
static lk_isa best(void)
{
    for (int isa = LK_N_ISAS - 1; isa > 0; isa--)
        if (lk_isa_is_available((lk_isa)isa) && !lk_isa_is_emulated((lk_isa)isa))
            return (lk_isa)isa;
    return LK_ISA_SCALAR;
}

/* Words of the peers for their code, by the best of our instruction sets that it comes up to: OpenBLAS
 * has names of processors, and takes one that it does not know for the oldest that will do, such as
 * Prescott; oneDNN and PyTorch have instruction sets. */
static const struct {
    lk_isa isa;
    const char *words;
} known[] = {
    {LK_ISA_AVX512, " SkylakeX Cooperlake SapphireRapids avx512 avx512_core avx512_core_vnni "
                    "avx512_core_bf16 avx512_core_amx "},
    {LK_ISA_AVX2, " Haswell Excavator Zen avx2 avx2_vnni "},
    {LK_ISA_SCALAR, " Unknown Generic Reference Katmai Coppermine Northwood Prescott Banias Atom "
                    "Core2 Penryn Dunnington Nehalem Athlon Opteron Opteron_SSE3 Barcelona Nano "
                    "Bobcat Sandybridge Bulldozer Piledriver Steamroller sse41 avx default "},
};

/* The least instruction set that a word of `name` stands for; LK_N_ISAS: none does. */
static lk_isa least(const char *name)
{
    lk_isa isa = LK_N_ISAS;
    for (size_t n; *name; name += n) {
        char word[64];
        name += strspn(name, " ,");
        n = strcspn(name, " ,");
        snprintf(word, sizeof word, " %.*s ", n < 60 ? (int)n : 60, name);
        for (size_t i = 0; n > 0 && i < sizeof known / sizeof known[0]; i++)
            if (known[i].isa < isa && strcasestr(known[i].words, word))
                isa = known[i].isa;
    }
    return isa;
}

void bench_path_set(bench_path *p, const char *peer, const char *name)
{
    *p = (bench_path){.name = ""};
    snprintf(p->name, sizeof p->name, "%s", name);
    if (least(name) >= best())
        return;
    snprintf(p->warning, sizeof p->warning,
             "%s fell back to its code path %s, which is less than the %s of this processor: it is "
             "slower than it should be, and a ratio to it is no ratio",
             peer, p->name, lk_isa_name(best()));
}

void bench_path_mpi(bench_path *p)
{
    enum { MAX_VERSION = 8192 }; /* of MPICH; Open MPI's is shorter */
    int (*version)(char *, int *) = NULL;
    char text[MAX_VERSION] = "";
    int n = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    memcpy(&version, &symbol, sizeof version);
    *p = (bench_path){.name = ""};
    if (!version || version(text, &n) != 0)
        return;
    text[strcspn(text, ",\n")] = '\0';
    for (char *tab = text; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    snprintf(p->name, sizeof p->name, "%.*s", (int)sizeof p->name - 1, text);
}

void bench_path_print(const bench_path *p, const char *peer, const char *about)
{
    printf("%s: %s%s%s\n", peer, about, *about && *p->name ? ", code path " : "", p->name);
}

void bench_path_warn(const bench_path *p)
{
    if (*p->warning)
        fprintf(stderr, "warning: %s\n", p->warning);
}

static report_cell cell_some_text(const char *text)
{
    return *text ? cell_text(text) : cell_none();
}

report_cell cell_path(const bench_path *p)
{
    return cell_some_text(p->name);
}

report_cell cell_path_warning(const bench_path *p)
{
    return cell_some_text(p->warning);
}
