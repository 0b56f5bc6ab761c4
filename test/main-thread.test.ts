/** Fails if the main thread of a node can reach code that evaluates untrusted input. */
import { build, type BuildOptions, type Metafile } from 'esbuild'
import t from 'tap'
// @ts-expect-error -- a script without types
import { options } from '../kernel/build/bundle.mjs'

/** Entry points of a node's main thread. */
const NODE = ['kernel/cli/verbs/up.ts', 'kernel/boot/launcher.ts', 'kernel/boot/node.ts', 'plugins/index.ts']
/** Entry points of other processes: jobs of kernel/untrusted, runners, CLI verbs. */
const ELSEWHERE = [
  'plugins/staging/cards/derive.ts', 'plugins/llama-cpp/cards/index.ts',
  'plugins/capabilities-tts/card-reader.ts', 'plugins/chat/embed/card-reader.ts',
  'plugins/chat/embed/index.ts', 'plugins/llama-cpp/server/index.ts',
  'plugins/capabilities-tts/engine/index.ts', 'plugins/capabilities-stt/engine/index.ts',
  'plugins/capabilities-stt/card-reader.ts',
  'plugins/llama-cpp/embedded/index.ts', 'plugins/llama-cpp/cli/engine.ts'
]
const EVALUATES = [
  /^node_modules\/(@huggingface\/(jinja|tokenizers|gguf)|protobufjs|tar|minizlib)\//,
  /^(onnxruntime-node|piper-phonemize)$/,
  // The resampler only computes.
  /^plugins\/runners\/onnx\/(?!resample\.ts)/,
  /^plugins\/staging\/cards\/(derive|folder)\.ts$/,
  /^plugins\/llama-cpp\/cards\//,
  /^plugins\/capabilities-(tts|stt)\/card-reader\.ts$/,
  /^plugins\/capabilities-stt\/engine\//,
  /^plugins\/chat\/embed\//,
  /^plugins\/llama-cpp\/text\//
]

/** May import tar, since it only encodes headers for the node's own files and reads no archive. */
const PACKS = 'plugins/diagnostics/capture/tar.ts'

type Inputs = Metafile['inputs']

/** Maps every module that the entries reach to its importer. CLI verbs are excluded; they run elsewhere. */
function reached (inputs: Inputs, entries: readonly string[]): Map<string, string | null> {
  const found = new Map<string, string | null>(entries.map((entry) => [entry, null]))
  for (const at of found.keys()) {
    if (at === PACKS) continue
    for (const { path, kind } of inputs[at]?.imports ?? []) {
      const verb = kind === 'dynamic-import' && /(^|\/)cli\//.test(path)
      if (!verb && !found.has(path)) found.set(path, at)
    }
  }
  return found
}

/** The import chain from an entry to a module that it reaches, for the failure message. */
const chain = (found: ReadonlyMap<string, string | null>, path: string): string => {
  const from = found.get(path)
  return from == null ? path : `${path} < ${chain(found, from)}`
}

t.test('no main thread of a node imports an evaluator of untrusted input', async (t) => {
  const { plugins: _, ...rest } = options as BuildOptions
  const { metafile } = await build({ ...rest, write: false, metafile: true, logLevel: 'silent' })
  const { inputs } = metafile as Metafile
  for (const entry of [...NODE, ...ELSEWHERE]) t.ok(entry in inputs, entry)
  const found = reached(inputs, NODE)
  t.ok(found.has('plugins/staging/manager/manager.ts') && found.has('plugins/chat/api/request-to-task.ts'))
  const bad = [...found.keys()].filter((path) => EVALUATES.some((one) => one.test(path)))
  t.same(bad.map((path) => chain(found, path)), [])
  const jobs = [...reached(inputs, ELSEWHERE).keys()]
  for (const one of EVALUATES) t.ok(jobs.some((path) => one.test(path)), `${String(one)} is somewhere`)
})
