/** Builds a program's command line and environment from its description. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import { cacheOf, contextOf, needOf } from '../../runners/cards/memory-forecast.js'
import type { Address } from '../../runners/openai/client.js'
import type { Description } from '../schema.js'

const GIB = 2 ** 30
const MIB = 2 ** 20
const PLACEHOLDER = /\{([a-z_]+)\}/g
const SMI = ['--query-gpu=memory.total', '--format=csv,noheader,nounits']
const SMI_MS = 10_000
/** Most that a program may take of a GPU; drivers keep some memory. */
const MOST_SHARE = 0.95
/** Tokens per slot that a cache holds besides its context: vLLM rounds up to blocks and keeps one free. */
const SPARE_TOKENS = 256

export type Values = Readonly<Record<string, string | undefined>>

export interface Sizes { contextLength: number, slots: number }

/** Context and slots as placement planned them. */
export function sizesOf ({ card, contextLength: asked, slots }: ModelSpec): Sizes {
  const contextLength = contextOf(card, asked)
  return { contextLength, slots: cacheOf(card, contextLength, slots).contexts }
}

/** Values of the placeholders. `template` is the model's chat template, or ''; `ranks` share the model. */
export async function valuesOf (
  spec: ModelSpec, { process_mib: process, tool_parsers: parsers = {} }: Description, address: Address,
  template: string, ranks = 1
): Promise<Values> {
  const { card, directory, threads, backend } = spec
  const { contextLength, slots } = sizesOf(spec)
  const share = (1 + SPARE_TOKENS / contextLength) / ranks
  const bytes = Math.ceil(cacheOf(card, contextLength, slots).bytes * share)
  const traits = { fixedBytes: process * MIB }
  const { neededBytes } = needOf(card, traits,
    { context: contextLength, slots, gpu: backend !== 'cpu', part: { of: 1, parts: ranks } })
  const total = backend === 'cuda' ? await gpuBytes() : null
  const [, parser] = Object.entries(parsers).find(([mark]) => template.includes(mark)) ?? []
  return {
    model: directory, name: card.modelId, context: String(contextLength), slots: String(slots),
    threads: String(threads), kv_bytes: String(bytes), kv_gib: String(Math.max(1, Math.ceil(bytes / GIB))),
    tool_parser: parser,
    ...'socketPath' in address ? { socket: address.socketPath } : { port: String(address.port) },
    ...total === null ? {} : { gpu_share: shareOf(neededBytes, total) }
  }
}

/** Rounded up to a hundredth, since vLLM refuses to start if the share is below what it needs. */
const shareOf = (needed: number, total: number): string =>
  Math.min(MOST_SHARE, Math.ceil(needed / total * 100) / 100).toFixed(2)

/** Memory of the first GPU; null if it cannot be read. */
async function gpuBytes (): Promise<number | null> {
  const { stdout } = await promisify(execFile)('nvidia-smi', SMI, { timeout: SMI_MS })
    .catch(() => ({ stdout: '' }))
  const mib = Number(stdout.split('\n')[0])
  return mib > 0 ? mib * MIB : null
}

/** Whether the program listens on a socket of the runner's folder; otherwise on a port of loopback. */
export const takesSocket = ({ args = [] }: Description): boolean =>
  args.flat().some((arg) => arg === '{socket}')

export function commandLine (
  { args = [], environment = {}, on = {}, gang: { worker = [] } = {} }: Description, backend: string,
  values: Values
): { args: string[], environment: Record<string, string> } {
  const own = on[backend] ?? {}
  const filled = (text: string): string =>
    text.replace(PLACEHOLDER, (whole, name: string) => values[name] ?? whole)
  const isKnown = (text: string): boolean =>
    [...text.matchAll(PLACEHOLDER)].every(([, name]) => values[name!] !== undefined)
  return {
    args: [...args, ...own.args ?? [], ...Number(values['rank'] ?? 0) > 0 ? worker : []].flatMap((group) =>
      typeof group === 'string' ? [filled(group)] : group.every(isKnown) ? group.map(filled) : []),
    environment: Object.fromEntries(Object.entries({ ...environment, ...own.environment })
      .filter(([, text]) => isKnown(text)).map(([name, text]) => [name, filled(text)]))
  }
}
