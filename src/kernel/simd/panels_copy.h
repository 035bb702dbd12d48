/* Copy into panels with one vector type; include with VEC defined, see vec.h.
 *
 * A few pixels at a time, so that their channels are read from memory once and in order.  Loads are
 * whole as long as they stay within a pixel's channels.  Strides are copied into variables because
 * the compiler must assume that the stores change everything else.
 */
static void V(panels_copy)(const lk__panels_args *t)
{
    enum { PIXELS = 8 };
    const V(elem) *from = t->from;
    const int64_t ld = t->ld;
    for (int64_t i = 0; i < t->n_pixels; i += PIXELS, from += PIXELS * ld) {
        const int64_t n = t->n_pixels - i < PIXELS ? t->n_pixels - i : PIXELS;
        for (int64_t p = 0; p < t->n_panels; p++) {
            const lk__panel q = t->panel[p];
            const int64_t width = q.width;
            V(elem) *to = (V(elem) *)t->to + q.at + (t->to_pixel + i) * width;
            const V(elem) *src = from + q.first;
            for (int v = 0; v < q.width; v += V(lanes), to += V(lanes), src += V(lanes)) {
                if (q.first + v + V(lanes) > t->channels) {
                    for (int64_t k = 0; k < n; k++)
                        V(store)
                    (to + k * width, V(load_mask)(src + k * ld, V(mask_first)(q.n - v)));
                } else if (n == PIXELS) {
                    LK_UNROLL
                    for (int64_t k = 0; k < PIXELS; k++)
                        V(store)(to + k * width, V(load)(src + k * ld));
                } else {
                    for (int64_t k = 0; k < n; k++)
                        V(store)(to + k * width, V(load)(src + k * ld));
                }
            }
        }
    }
}
