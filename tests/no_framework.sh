#!/bin/bash
# Fails when BINARY links, or holds the name of, a machine-learning framework or a BLAS:
# inference arithmetic is ours.    tests/no_framework.sh BINARY
set -u
binary=$1
[ -f "$binary" ] || { echo "no_framework: $binary: not found"; exit 1; }

libraries='(blas|lapack|atlas|mkl_|mklml|dnnl|onednn|ggml|llama|torch|c10|caffe|onnx|tensorflow|tflite|mlx|openvino|tvm|ncnn|MNN|cudnn|cublas|nvinfer|eigen|armpl|xnnpack|libblis|libflame)'
symbols='^(cblas_|clapack_|LAPACKE_|openblas_|[sdcz]gemm_?$|[sdcz]gemv_?$|ggml_|gguf_init|llama_[a-z]|mkl_|MKL_|dnnl_|Ort[A-Z]|TF_[A-Z]|TfLite|mlx_|cudnn|cublas|vDSP_|BNNS|xnn_|_ZN5torch|_ZN2at[0-9]|_ZN3c10|_ZN10tensorflow|_ZN3mlx|_ZN5Eigen)'
failed=0

report() {  # report WHERE NAMES
  [ -z "$2" ] && return
  echo "no_framework: $binary: $1 names a framework:" $(echo "$2" | sort -u | head -20)
  failed=1
}

needed=$(readelf -d "$binary" | grep -F '(NEEDED)') || { echo "no_framework: $binary: no dynamic program"; exit 1; }
report "a linked library" "$(echo "$needed" | grep -Eio "\[[^]]*$libraries[^]]*\]")"
# Libraries of libraries too; only the name counts, not the folder it lies in.
report "a loaded library" \
  "$(ldd "$binary" 2>/dev/null | awk '{print $1}' | sed 's,.*/,,' | grep -Ei "$libraries")"
report "a symbol" \
  "$({ nm -D "$binary"; nm "$binary"; } 2>/dev/null | awk '{print $NF}' | sed 's/@.*//' | grep -E "$symbols")"
# What dlopen could be given.
report "a string" \
  "$(strings -a "$binary" | grep -Eio "lib[a-z0-9_+-]*$libraries[a-z0-9_+-]*\.(so|dylib)[.0-9]*")"

[ $failed = 0 ] && echo "no_framework: $(basename "$binary"): links $(echo "$needed" | wc -l) libraries, no framework"
exit $failed
