/* CRC-32C: published values, and the instruction against the tables. */
#include "base/crc32c.h"
#include "harness.h"

/* The vectors of RFC 3720, B.4, and the check value of the catalogues. */
TEST(the_published_values_come_out)
{
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    ASSERT_EQ(lk_crc32c(0, "123456789", 9), 0xe3069283);
    ASSERT_EQ(lk_crc32c(0, zeros, 32), 0x8a9136aa);
    ASSERT_EQ(lk_crc32c(0, ones, 32), 0x62a8ab43);
    ASSERT_EQ(lk_crc32c(0, up, 32), 0x46dd794e);
    ASSERT_EQ(lk_crc32c(0, down, 32), 0x113fdb5c);
    ASSERT_EQ(lk_crc32c(0, NULL, 0), 0);
}

static unsigned char noise[4096 + 8];

static void make_noise(void)
{
    uint32_t v = 1;
    for (size_t i = 0; i < sizeof noise; i++, v = v * 1664525 + 1013904223)
        noise[i] = (unsigned char)(v >> 24);
}

TEST(instruction_and_tables_agree_at_every_length_and_alignment)
{
    make_noise();
    ASSERT_EQ(lk__crc32c_table(0, "123456789", 9), 0xe3069283);
    if (!lk__crc32c_has_hardware())
        return;
    for (size_t start = 0; start < 8; start++)
        for (size_t n = 0; n < 200; n++)
            ASSERT_EQ(lk__crc32c_hardware(0x1234567, noise + start, n),
                      lk__crc32c_table(0x1234567, noise + start, n));
    ASSERT_EQ(lk__crc32c_hardware(0, noise, 4096), lk__crc32c_table(0, noise, 4096));
}

TEST(a_stream_in_pieces_is_the_same_stream)
{
    make_noise();
    uint32_t whole = lk_crc32c(0, noise, 1000);
    for (size_t cut = 0; cut <= 1000; cut += 37) {
        ASSERT_EQ(lk_crc32c(lk_crc32c(0, noise, cut), noise + cut, 1000 - cut), whole);
        ASSERT_EQ(lk__crc32c_table(lk_crc32c(0, noise, cut), noise + cut, 1000 - cut), whole);
    }
}

TEST(one_flipped_bit_is_seen)
{
    make_noise();
    uint32_t whole = lk_crc32c(0, noise, 512);
    for (int bit = 0; bit < 512 * 8; bit++) {
        noise[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ASSERT_TRUE(lk_crc32c(0, noise, 512) != whole);
        noise[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
