// Fused operations of training on a GPU: what src/model/gpu/mod.rs launches.
//
// The kernels above `gather` have one signature: three operands, the output, `rows` rows of `width` f32, a number of
// rows that share something, and a scale. A warp takes a row.

typedef unsigned int u32;

#define KERNEL(NAME)                                                                                                   \
    extern "C" __global__ void NAME(const float *a, const float *b, const float *c, float *out, u32 rows, u32 width,   \
                                    u32 group, float scale)

#define ROW                                                                                                            \
    const u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;                        \
    if (row >= rows) return;                                                                                           \
    const size_t start = (size_t)row * width;

#define EACH(J) for (u32 J = lane; J < width; J += 32)

__device__ float sum(float value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
    return value;
}

__device__ float largest(float value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
    return value;
}

// Mean and reciprocal deviation of a row.
__device__ float2 moments(const float *x, u32 width, u32 lane, float epsilon) {
    float total = 0.0f, squares = 0.0f;
    EACH(j) total += x[j];
    const float mean = sum(total) / width;
    EACH(j) squares += (x[j] - mean) * (x[j] - mean);
    return make_float2(mean, rsqrtf(sum(squares) / width + epsilon));
}

// a: x, b: weight, c: bias, scale: epsilon.
KERNEL(layer_norm) {
    ROW const float2 m = moments(a + start, width, lane, scale);
    EACH(j) out[start + j] = (a[start + j] - m.x) * m.y * b[j] + c[j];
}

// a: x, c: gradient, scale: epsilon; the gradient times the normalised x, whose sum over rows is the weight's gradient.
KERNEL(layer_norm_weight_gradient) {
    ROW const float2 m = moments(a + start, width, lane, scale);
    EACH(j) out[start + j] = (a[start + j] - m.x) * m.y * c[start + j];
}

// a: x, b: weight, c: gradient, scale: epsilon.
KERNEL(layer_norm_gradient) {
    ROW const float2 m = moments(a + start, width, lane, scale);
    float plain = 0.0f, along = 0.0f;
    EACH(j) {
        const float weighted = c[start + j] * b[j];
        plain += weighted;
        along += weighted * (a[start + j] - m.x) * m.y;
    }
    plain = sum(plain) / width;
    along = sum(along) / width;
    EACH(j) out[start + j] = m.y * (c[start + j] * b[j] - plain - (a[start + j] - m.x) * m.y * along);
}

// a: scores, b: what is added to the scores of each `group` rows.
KERNEL(softmax) {
    ROW const float *mask = b + (size_t)(row / group) * width;
    float top = -3.4e38f, total = 0.0f;
    EACH(j) top = fmaxf(top, a[start + j] * scale + mask[j]);
    top = largest(top);
    EACH(j) total += expf(a[start + j] * scale + mask[j] - top);
    total = 1.0f / sum(total);
    EACH(j) out[start + j] = expf(a[start + j] * scale + mask[j] - top) * total;
}

// a: softmax, c: gradient.
KERNEL(softmax_gradient) {
    ROW float along = 0.0f;
    EACH(j) along += a[start + j] * c[start + j];
    along = sum(along);
    EACH(j) out[start + j] = scale * a[start + j] * (c[start + j] - along);
}

// a: x, b: bias.
KERNEL(bias) {
    ROW EACH(j) out[start + j] = a[start + j] + b[j];
}

// a: x, b: bias.
KERNEL(bias_gelu) {
    ROW EACH(j) {
        const float x = a[start + j] + b[j];
        out[start + j] = 0.5f * x * (1.0f + erff(x * 0.70710678f));
    }
}

// a: x, b: bias, c: gradient.
KERNEL(bias_gelu_gradient) {
    ROW EACH(j) {
        const float x = a[start + j] + b[j];
        const float below = 0.5f * (1.0f + erff(x * 0.70710678f));
        out[start + j] = c[start + j] * (below + x * 0.39894228f * expf(-0.5f * x * x));
    }
}

// Row `ids[row]` of a table for each id.
extern "C" __global__ void gather(const float *table, const u32 *ids, float *out, u32 rows, u32 width) {
    ROW EACH(j) out[start + j] = table[(size_t)ids[row] * width + j];
}

// Adds each row to row `ids[row]` of a table of zeros.
extern "C" __global__ void scatter(const float *x, const u32 *ids, float *out, u32 rows, u32 width) {
    ROW EACH(j) atomicAdd(&out[(size_t)ids[row] * width + j], x[start + j]);
}

// A contiguous copy of a tensor whose axes are permuted: the output has the last three dimensions d1, d2 and d3, and steps
// along its axes by s0 to s3 elements of x.
extern "C" __global__ void permute(const float *x, float *out, u32 n, u32 d1, u32 d2, u32 d3, u32 s0, u32 s1, u32 s2,
                                   u32 s3) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const u32 i3 = at % d3, above3 = at / d3;
    const u32 i2 = above3 % d2, above2 = above3 / d2;
    out[at] = x[above2 / d1 * s0 + above2 % d1 * s1 + i2 * s2 + i3 * s3];
}

// The three kernels of AdamW, one element each. Decaying means of gradients and of their squares:
#define IN_PLACE(NAME)                                                                                                 \
    extern "C" __global__ void NAME(float *a, const float *b, const float *c, u32 n, float s, float t, float u) {      \
        const u32 i = blockIdx.x * blockDim.x + threadIdx.x;                                                           \
        if (i >= n) return;

IN_PLACE(mean) a[i] = a[i] * s + b[i] * t; }

IN_PLACE(mean_of_squares) a[i] = a[i] * s + b[i] * b[i] * t; }

// a: parameter, b and c: its means; s: factor of its decay, t: rate by the first mean's correction, u: the other correction.
IN_PLACE(descend) a[i] = a[i] * s - t * b[i] / (sqrtf(c[i] / u) + 1e-8f); }

// Sums of columns over blocks of `block` rows: `[rows, width]` to `[ceil(rows / block), width]`. A thread block takes 32
// columns and one block of rows.
extern "C" __global__ void column_sums(const float *x, float *out, u32 rows, u32 width, u32 block) {
    __shared__ float partial[8][32];
    const u32 column = blockIdx.x * 32 + threadIdx.x;
    const u32 first = blockIdx.y * block, end = min(first + block, rows);
    float total = 0.0f;
    if (column < width)
        for (u32 row = first + threadIdx.y; row < end; row += 8) total += x[(size_t)row * width + column];
    partial[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (u32 y = 1; y < 8; y++) total += partial[y][threadIdx.x];
        out[(size_t)blockIdx.y * width + column] = total;
    }
}
