/* Check of the state hash and CRC-32C, of bytes at once and in parts. */
#include "selfcheck/check.h"

#include <lockstep/extra/crc32c.h>
#include <lockstep/hash.h>

#include <stdio.h>

enum { WHOLE, PARTS };
enum { OUT_CRC, OUT_HASH };

static const int64_t lengths[] = {0, 1, 7, 8, 31, 32, 33, 1021, 4099};

static lk_status checksum_setup(check_case *c)
{
    snprintf(c->label, sizeof c->label, "%lld bytes", (long long)lengths[c->index]);
    LK_TRY(check_input(c, LK_U8, lengths[c->index], 0, 256));
    LK_TRY(check_output(c, LK_I64, 1, false));
    LK_TRY(check_output(c, LK_I64, 1, false));
    c->ways = 1U << WHOLE | 1U << PARTS;
    return LK_OK;
}

static lk_status checksum_run(const check_case *c, int way, void *const *out)
{
    const unsigned char *bytes = c->in[0].data;
    size_t n = (size_t)c->in[0].n, cut = way == PARTS ? n / 3 : 0;
    lk_hash h = lk_hash_start();
    lk_hash_add_bytes(&h, bytes, cut);
    lk_hash_add_bytes(&h, bytes + cut, n - cut);
    *(int64_t *)out[OUT_HASH] = (int64_t)lk_hash_value(&h);
    *(int64_t *)out[OUT_CRC] = lk_crc32c(lk_crc32c(0, bytes, cut), bytes + cut, n - cut);
    return LK_OK;
}

/* CRC-32C bit by bit. */
static lk_status checksum_expect(const check_case *c, check_truth *truth)
{
    const unsigned char *bytes = c->in[0].data;
    uint32_t crc = 0xffffffffU;
    for (int64_t i = 0; i < c->in[0].n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
    }
    *(int64_t *)truth->bits[OUT_CRC] = (int64_t)(crc ^ 0xffffffffU);
    truth->has_bits[OUT_CRC] = true;
    return LK_OK;
}

const lk__check lk__check_checksum = {
    .name = "checksum",
    .summary = "CRC-32C and the state hash, at once and in parts",
    .n_cases = sizeof lengths / sizeof lengths[0],
    .untyped = true,
    .ways = {"whole", "in parts"},
    .setup = checksum_setup,
    .run = checksum_run,
    .expect = checksum_expect,
};
