/**
 * node-llama-cpp's prebuilt addon, without its JavaScript, which downloads and compiles on install,
 * silently shifts a full context, and samples the sequences in a batch in racing threads. The addon's
 * interface is undocumented, so package.json pins its version.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { EngineError } from '../../../kernel/api/engine.js'
import { PACKAGES } from '../packages.js'

export interface NativeModel {
  init (): Promise<boolean>
  dispose (): Promise<void>
  tokenize (text: string, special: boolean): Uint32Array
  getTokenString (id: number): string | undefined
  getTokenAttributes (id: number): number
  isEogToken (id: number): boolean
  /** Returns 1 for SentencePiece, 2 for byte-level BPE, 3 for WordPiece, 4 for unigram. */
  getVocabularyType (): number
  shouldPrependBosToken (): boolean
  shouldAppendEosToken (): boolean
  tokenBos (): number
  tokenEos (): number
  sepToken (): number
}

/** Sampling parameters. An absent field turns its sampler off; without a temperature, sampling is greedy. */
export interface SamplerConfig extends Partial<Record<
  'temperature' | 'topK' | 'topP' | 'minP' | 'seed' | 'repeatPenalty' | 'repeatPenaltyMaxTokens' |
  'repeatPenaltyPresencePenalty' | 'repeatPenaltyFrequencyPenalty', number>> {
  repeatPenaltyTokens?: Uint32Array
  tokenBiasKeys?: Uint32Array
  tokenBiasValues?: Float32Array
  grammarEvaluationState?: object
}

export interface NativeSampler { applyConfig (config: SamplerConfig): void, dispose (): void }

/** Result of sampling; `probabilities` alternates tokens and their probabilities. */
export type Sampled = [token: number, probabilities: number[] | undefined, confidence: number | undefined]

export interface NativeContext {
  init (): Promise<boolean>
  dispose (): Promise<void>
  initBatch (tokens: number): void
  /** Returns the batch indices at which the logits for the tokens at `outputs` will be. */
  addToBatch (sequence: number, position: number, tokens: Uint32Array, outputs: Uint32Array): Uint32Array
  decodeBatch (): Promise<void>
  sampleToken (at: number, sampler: NativeSampler): Promise<number>
  sampleToken (at: number, sampler: NativeSampler, probabilities: boolean, confidence: boolean):
  Promise<Sampled>
  disposeSequence (sequence: number): void
  /** Returns false if the model's kind of cache cannot remove a range. */
  removeTokenCellsFromSequence (sequence: number, from: number, to: number): boolean
  /** The oldest cached position; with windowed attention, the window's oldest position. */
  getSequenceKvCacheMinPosition (sequence: number): number
  getEmbedding (tokens: number): Float64Array
}

interface ModelOptions {
  addonExports: Binding, gpuLayers: number, useMmap: boolean
  onLoadProgress?: (part: number) => void
}

export interface ContextOptions {
  contextSize: number, batchSize: number, sequences: number, threads: number, flashAttention: 'auto'
  kvCacheKeyType?: number, kvCacheValueType?: number, embeddings: boolean, ranking: boolean
}

export interface Binding {
  AddonModel: new (path: string, options: ModelOptions) => NativeModel
  AddonContext: new (model: NativeModel, options: ContextOptions) => NativeContext
  AddonSampler: new (model: NativeModel) => NativeSampler
  /** @throws Error for invalid GBNF */
  AddonGrammar: new (gbnf: string, options: { addonExports: Binding, rootRuleName: string }) => object
  AddonGrammarEvaluationState: new (model: NativeModel, grammar: object) => object
  markLoaded (): boolean
  setLogger (log?: (level: number, text: string) => void): void
  setLoggerLogLevel (level: number): void
  loadBackends (folder?: string): void
  init (): Promise<void>
}

/** Bits in the result of `getTokenAttributes`. */
export const ATTRIBUTE = { unknown: 1, control: 8, userDefined: 16 } as const
/** llama.cpp's log levels. */
const ERRORS = 2
const LOG_MS = 20

/** The addon, and the release tag of the llama.cpp in it. */
export interface LlamaCpp { native: Binding, release: string }

let loaded: Promise<LlamaCpp> | undefined

/** Loads the addon once per process. @throws EngineError no_backend */
export async function llamaCpp (): Promise<LlamaCpp> { return await (loaded ??= loadAddon()) }

async function loadAddon (): Promise<LlamaCpp> {
  const folder = addonFolder()
  const native = createRequire(import.meta.url)(join(folder, 'llama-addon.node')) as Binding
  native.markLoaded()
  native.setLoggerLogLevel(ERRORS)
  // Loads the compute backend that is best for this CPU.
  native.loadBackends(folder)
  await native.init()
  return { native, release: releaseOf(folder) }
}

function addonFolder (): string {
  const host = `${process.platform}-${process.arch}`
  const name = PACKAGES[host] ?? fail(`llama.cpp is not built for ${host}`)
  try {
    const main = createRequire(import.meta.url).resolve(name)
    return join(dirname(main), '..', 'bins', basename(name))
  } catch {
    return fail(`the package ${name} is not installed: it needs glibc, and an install ` +
      'without --omit=optional')
  }
}

function fail (why: string): never {
  throw new EngineError('no_backend',
    `${why}. \`svc engine add llama.cpp\` installs llama.cpp's server instead`)
}

function releaseOf (folder: string): string {
  const { buildOptions } = JSON.parse(readFileSync(join(folder, '_nlcBuildMetadata.json'), 'utf8')) as
    { buildOptions: { llamaCpp: { release: string } } }
  return buildOptions.llamaCpp.release
}

/** Waits for log lines from a failed call, which arrive through the event loop. */
export const errorsRead = async (): Promise<void> => { await setTimeout(LOG_MS) }

/** Collects the errors that llama.cpp logs during `work`. */
export async function withErrors<T> (native: Binding, work: (errors: string[]) => Promise<T>): Promise<T> {
  const errors: string[] = []
  native.setLogger((level, text) => { if (level <= ERRORS && text.trim() !== '') errors.push(text.trim()) })
  try {
    return await work(errors)
  } finally {
    // Remove the logger, which would keep the process alive.
    native.setLogger()
  }
}
