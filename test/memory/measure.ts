/**
 * Compares svc's memory estimate for a model with the memory that a real runner uses, after `npm run build`:
 * node --import=./test/tools/typescript.mjs test/memory/measure.ts server|library|onnx FOLDER [context=N]
 * [slots=N] [cacheType=q8_0] [long=WORDS] [image=FILE]
 * FOLDER holds the model's files; `server` runs the llama-server that SVC_LLAMA_SERVER_BIN names. Memory use
 * is the sum of the peaks (VmHWM) of the runner and its children. Prints a table row; exits with 1 if
 * estimate and use differ by more than the limit.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative, resolve } from 'node:path'
import type { MemoryTraits, ModelCard } from '../../kernel/index.js'
import type { ModelSpec } from '../../kernel/api/engine.js'
import { systemClock } from '../../kernel/api/clock.js'
import { cacheOf, needOf } from '../../plugins/runners/cards/memory-forecast.js'
import speech from '../../plugins/capabilities-tts/index.js'
import { manifest as chat } from '../../plugins/chat/manifest.js'
import { manifest as llama } from '../../plugins/llama-cpp/manifest.js'
import { LLAMA_SERVER } from '../../plugins/llama-cpp/engine.js'
import { createSupervisor, type Supervisor } from '../../plugins/runners/process/supervisor.js'
import { recordingLog, until } from '../../plugins/runners/test/process-kit.js'
import { derive } from '../../plugins/staging/test/cards-kit.js'

const MIB = 2 ** 20
/** Allowed relative difference in either direction. */
const SHARE = 0.1
const BYTES = 64 * MIB
const READY_MS = 300_000

type Engine = MemoryTraits & { module: string }
const ENGINES: Readonly<Record<string, Engine>> =
  { ...chat.engines, ...llama.engines, ...speech.manifest.engines }

async function cardOf (folder: string): Promise<ModelCard> {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((one) => one.isFile())
    .map((one) => join(one.parentPath, one.name))
    .map((path) => ({ path: relative(folder, path), size: statSync(path).size }))
  return await derive(folder, { modelId: `local/${basename(folder)}`, revision: '1', files })
}

/** Sum of the peak memory of a process and its descendants in bytes. */
function peakOf (pid: number): number {
  const kib = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  const below = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Number)
  return Number(kib) * 1024 + below.reduce((sum, child) => sum + peakOf(Number(child)), 0)
}

const WORDS = ['sun', 'river', 'stone', 'light', 'green', 'walk', 'house', 'cloud', 'seven', 'glass']
const text = (seed: number, words: number): string =>
  Array.from({ length: words }, (_, i) => WORDS[((i + seed * 131) * 7919 + (i >> 3)) % 10]).join(' ')
const SENTENCE = 'The quick brown fox jumps over the lazy dog near the old river bank while the sun sets ' +
  'slowly behind the distant hills and the children walk home through the quiet streets of the town.'

type Ask = (kind: string, payload: Record<string, unknown>) => Promise<void>

/**
 * Fills several contexts concurrently; then sends a long prompt, prompts that extend it, unrelated prompts,
 * another extension of the long prompt, and the image, if there is one.
 */
async function write (
  ask: Ask, { contexts, longest, image }: { contexts: number, longest: number, image: string | undefined }
): Promise<void> {
  const complete = async (seed: number, words: number, more = ''): Promise<void> => {
    await ask('completion', { prompt: `${seed} ${text(seed, words)}${more}`, max_tokens: 12 })
  }
  await Promise.all(Array.from({ length: contexts + 2 }, async (_, i) => { await complete(i, longest >> 3) }))
  for (const more of ['', ' and then', ' and then the end']) await complete(99, longest, more)
  for (let seed = 100; seed < 103; seed++) await complete(seed, longest >> 1)
  await complete(99, longest, ' and then another end')
  if (image === undefined) return
  const url = `data:image/png;base64,${readFileSync(image).toString('base64')}`
  const content = [{ type: 'image_url', image_url: { url } }, { type: 'text', text: 'What is it?' }]
  await ask('chat', { max_tokens: 8, messages: [{ role: 'user', content }] })
}

async function speak (ask: Ask): Promise<void> {
  const texts = ['Hello.', ...[1, 2, 3].map((times) => Array(times).fill(SENTENCE).join(' ')), 'Yes.']
  for (const said of texts) await ask('tts', { text: said })
}

async function embed (ask: Ask): Promise<void> {
  for (let i = 0; i < 8; i++) {
    await ask('embed', { input: Array.from({ length: 1 + i * 4 }, (_, k) => text(i + k, 30 + 60 * i)) })
  }
}

/** Starts a runner as a node does, from the output of `npm run build`. */
async function started (
  scratch: string, engine: Engine, spec: Pick<ModelSpec, 'card' | 'directory' | 'contextLength' | 'slots'>
): Promise<Supervisor> {
  const root = new URL('../../', import.meta.url).href
  const server = process.env['SVC_LLAMA_SERVER_BIN']
  const supervisor = createSupervisor({
    runnerId: 'measured', instanceId: 'measured', clock: systemClock, log: recordingLog().log, scratch,
    engineModule: engine.module.replace(root, `${root}dist/`).replace(/\.ts$/, '.js'),
    spec: {
      ...spec, backend: 'cpu', threads: 1, options: server === undefined ? {} : { serverBinary: server }
    },
    maxConcurrent: 99,
    output: (_stream, line) => { process.stderr.write(line) },
    onStatus: () => {},
    onFailed: ({ errorMessage }) => { throw new Error(errorMessage) }
  })
  supervisor.start()
  await until('ready', () => 'RunnerReady' in supervisor.status, READY_MS)
  return supervisor
}

const [driver, given = '.', ...pairs] = process.argv.slice(2)
const directory = resolve(given)
const options = Object.fromEntries(pairs.map((pair) => pair.split('=') as [string, string]))
const [context, slots] = ['context', 'slots'].map((key) => options[key] && Number(options[key]))
  .map((number) => number || undefined)
const card = await cardOf(directory)
const { cacheType } = options
if (cacheType !== undefined) card.cacheType = cacheType as NonNullable<ModelCard['cacheType']>
const engine = driver === 'library' ? LLAMA_SERVER.otherwise : ENGINES[card.engine]!
const need = needOf(card, engine, { context, slots })
const scratch = mkdtempSync(join(tmpdir(), 'svc-measure-'))
const supervisor = await started(scratch, engine,
  {
    card, directory, ...context === undefined ? {} : { contextLength: context },
    ...slots === undefined ? {} : { slots }
  })
const ask: Ask = async (kind, payload) => {
  const chunks = supervisor.open('task', { kind, payload }, new AbortController().signal)
  for await (const chunk of chunks) void chunk
}
if (card.tasks.includes('tts')) await speak(ask)
else if (card.tasks.includes('embeddings')) await embed(ask)
else {
  const longest = Math.min(Number(options['long'] ?? 900), card.contextLength - 200)
  await write(ask, { contexts: cacheOf(card, context, slots).contexts, longest, image: options['image'] })
}
const used = peakOf(supervisor.report().pid!)
await supervisor.stop()
rmSync(scratch, { recursive: true, force: true })
const off = need.neededBytes - used
const mib = (bytes: number): number => Math.round(bytes / MIB)
const terms = [need.shareBytes, need.cacheBytes, need.bufferBytes, need.fixedBytes].map(mib).join(' + ')
const fits = Math.abs(off) <= Math.max(BYTES, used * SHARE)
process.stdout.write(`| ${[basename(directory), ...pairs].join(' ')} | ${driver} | ` +
  `${mib(need.neededBytes)} (${terms}) | ${mib(used)} | ` +
  `${mib(off)} MiB, ${(off / used * 100).toFixed(1)} % |${fits ? '' : ' too far'}\n`)
process.exitCode = fits ? 0 : 1
