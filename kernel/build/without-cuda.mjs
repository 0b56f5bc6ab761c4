// Runs before the packages' install scripts when svc is installed as a dependency. On Linux x64 the script of
// onnxruntime-node would download 400 MB of CUDA libraries from a server other than the npm registry, and the
// install fails if that server is unreachable. The script skips existing files, so placeholder files stand in
// for the libraries until a user installs them.
import { existsSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const NOTE = 'Not the CUDA library. To fetch it, run:\n' +
  'ONNXRUNTIME_NODE_INSTALL=cuda12 npm rebuild onnxruntime-node\n'
const search = createRequire(import.meta.url).resolve.paths('onnxruntime-node') ?? []
const found = search.map((folder) => join(folder, 'onnxruntime-node/bin/napi-v6/linux/x64')).find(existsSync)
if (found !== undefined && process.env.ONNXRUNTIME_NODE_INSTALL === undefined) {
  for (const name of ['cuda', 'shared', 'tensorrt']) {
    const path = join(found, `libonnxruntime_providers_${name}.so`)
    if (!existsSync(path)) writeFileSync(path, NOTE)
  }
}
