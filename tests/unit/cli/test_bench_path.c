/* Code paths of the bench's peers: which are less than the processor has. */
#include "bench/path.h"
#include "harness.h"

#include <lockstep/extra/isa.h>

static bool has(lk_isa isa)
{
    return lk_isa_is_available(isa) && !lk_isa_is_emulated(isa);
}

/* Whether a peer with this path is warned of. */
static bool warns(const char *name)
{
    bench_path p;
    bench_path_set(&p, "peer", name);
    ASSERT_TRUE(strcmp(p.name, name) == 0);
    return p.warning[0] != '\0';
}

TEST(code_that_is_older_than_avx2_is_warned_of_where_there_is_avx2)
{
    bool expected = has(LK_ISA_AVX2);
    static const char *const old[] = {"Prescott", "PRESCOTT", "Nehalem", "Sandybridge", "sse41",
                                      "avx",      "generic",  "DEFAULT", "Reference"};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        ASSERT_TRUE(warns(old[i]) == expected);
}

TEST(code_for_avx2_is_warned_of_where_there_is_avx512)
{
    bool expected = has(LK_ISA_AVX512);
    static const char *const older[] = {"Haswell", "Zen", "avx2", "AVX2", "avx2_vnni"};
    for (size_t i = 0; i < sizeof older / sizeof older[0]; i++)
        ASSERT_TRUE(warns(older[i]) == expected);
}

TEST(the_newest_code_and_words_that_nobody_knows_are_not_warned_of)
{
    static const char *const fine[] = {"SkylakeX",   "SapphireRapids", "avx512_core", "AVX512", "",
                                       "NEOVERSEN1", "Prescottish",    "avx51",       ", ,"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        ASSERT_TRUE(!warns(fine[i]));
}

TEST(of_several_words_the_oldest_counts)
{
    ASSERT_TRUE(warns("capability AVX512, OpenBLAS Prescott, oneDNN avx512_core") ==
                has(LK_ISA_AVX2));
    ASSERT_TRUE(!warns("capability AVX512, OpenBLAS SkylakeX, oneDNN avx512_core"));
}

TEST(a_warning_names_the_peer_its_path_and_what_the_processor_has)
{
    bench_path p;
    bench_path_set(&p, "openblas", "Prescott");
    if (!has(LK_ISA_AVX2))
        return;
    ASSERT_TRUE(strstr(p.warning, "openblas fell back to its code path Prescott"));
    ASSERT_TRUE(strstr(p.warning, has(LK_ISA_AVX512) ? "avx512" : "avx2"));
}

TEST(a_long_path_is_cut)
{
    char name[1000];
    bench_path p;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    bench_path_set(&p, "peer", name);
    ASSERT_TRUE(strlen(p.name) < sizeof p.name);
    ASSERT_TRUE(p.warning[0] == '\0');
}

TEST(without_mpi_its_path_is_empty)
{
    bench_path p;
    bench_path_mpi(&p);
    ASSERT_TRUE(p.name[0] == '\0');
}
