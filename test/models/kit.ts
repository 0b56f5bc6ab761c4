/** What tests of this folder share: models as a pull leaves them, answers of svc's engine and the judge. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { EngineSession, ModelCard, ModelSpec } from '../../kernel/api/engine.js'
import { deriveCard } from '../../plugins/staging/cards/derive.js'
import { selectFiles } from '../../plugins/staging/hub/select.js'
import type { Dtype } from './graph.js'

/** Log probabilities of the likeliest tokens of one step. */
export type Likeliest = Array<[id: number, logprob: number]>
/** An answer; its token that ends it is not in `ids`. */
export interface Answer { ids: number[], steps: Likeliest[], cached: number }

/** A question to transformers.js. */
export interface Question {
  chats?: unknown[], texts?: string[], prompts?: number[][], tokens?: number
  encode?: { texts: string[], pooling: string }
}

/** What it said. */
export interface Judged {
  chats: number[][], texts: number[][], answers: Array<Omit<Answer, 'cached'>>, vectors: number[][]
}

/** Asks transformers.js about the model in a folder. */
export async function judge (folder: string, dtype: Dtype, question: Question): Promise<Judged> {
  const script = fileURLToPath(new URL('judge.mjs', import.meta.url))
  const { NODE_OPTIONS: _, ...environment } = process.env
  const child = spawn(process.execPath, [script], { stdio: ['pipe', 'pipe', 'pipe'], env: environment })
  child.stdin.end(JSON.stringify({ root: dirname(folder), model: basename(folder), dtype, ...question }))
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (code !== 0) throw new Error(`transformers.js: ${err}`)
  return JSON.parse(out) as Judged
}

/** The spec of a model of which one form was pulled. */
export async function pulled (folder: string, dtype: Dtype, threads = 2): Promise<ModelSpec> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const there = await Promise.all(entries.filter((entry) => entry.isFile()).map(async (entry) => {
    const path = join(entry.parentPath, entry.name)
    return { path: path.slice(folder.length + 1), size: (await stat(path)).size }
  }))
  const files = selectFiles(there, { variant: dtype })
  const card = await deriveCard(folder, { modelId: `svc/${basename(folder)}`, revision: dtype, files })
  return { card, directory: folder, backend: 'cpu', threads, options: {} }
}

/** A model of the kind of card that a pull makes. */
export type Card = ModelCard

const never = new AbortController().signal

/** The one payload of a task that answers at once. */
export async function payloadOf (
  session: EngineSession, kind: string, payload: Record<string, unknown>
): Promise<Record<string, unknown>> {
  for await (const chunk of session.run({ kind, payload }, never)) return chunk.payload
  throw new Error(`${kind} answered nothing`)
}

/** The ids of a text or a conversation. */
export async function idsOf (session: EngineSession, payload: Record<string, unknown>): Promise<number[]> {
  return (await payloadOf(session, 'tokenize', payload))['tokens'] as number[]
}

interface Piece {
  kind: string
  tokens?: Array<{ id: number, logprob: number, top: Array<{ id: number, logprob: number }> }>
  usage?: { cached_tokens: number }
}

/** A greedy answer. */
export async function written (
  session: EngineSession, prompt: readonly number[], tokens: number
): Promise<Answer> {
  const params = { temperature: 0, logprobs: true, top_logprobs: 8 }
  const answer: Answer = { ids: [], steps: [], cached: 0 }
  const task = { kind: 'completion', payload: { prompt: [...prompt], max_tokens: tokens, params } }
  for await (const { payload } of session.run(task, never)) {
    const piece = payload as unknown as Piece
    for (const { id, top } of piece.tokens ?? []) {
      answer.ids.push(id)
      answer.steps.push(top.map((each) => [each.id, each.logprob]))
    }
    if (piece.kind === 'done') answer.cached = piece.usage?.cached_tokens ?? 0
  }
  return answer
}

/** The vectors of texts. */
export async function vectorsOf (session: EngineSession, texts: readonly string[]): Promise<Float32Array[]> {
  const vectors: Float32Array[] = []
  for await (const { payload, media } of session.run({ kind: 'embed', payload: { input: texts } }, never)) {
    if (media !== undefined) vectors[payload['index'] as number] = new Float32Array(media.slice().buffer)
  }
  return vectors
}

/** How far two answers go together. */
export interface Agreement {
  /** Tokens written before they part. */
  same: number
  /** Largest difference of a log probability until then, in nats. */
  worst: number
  /** Where they part: by how much the judge likes its own token better, in nats; null where they do not. */
  parted: number | null
}

/** Compares an answer with the judge's, whose last token may be the one that ends it. */
export function agreement (judged: Omit<Answer, 'cached'>, own: Omit<Answer, 'cached'>): Agreement {
  let worst = 0
  for (const [i, id] of own.ids.entries()) {
    const [mine, theirs] = [new Map(own.steps[i]), new Map(judged.steps[i])]
    for (const [token, logprob] of theirs) {
      const other = mine.get(token)
      if (other !== undefined) worst = Math.max(worst, Math.abs(other - logprob))
    }
    if (id === judged.ids[i]) continue
    return { same: i, worst, parted: (judged.steps[i]?.[0]?.[1] ?? 0) - (theirs.get(id) ?? -Infinity) }
  }
  return { same: own.ids.length, worst, parted: null }
}

/** The cosine of the angle between two vectors. */
export function cosine (a: ArrayLike<number>, b: ArrayLike<number>): number {
  const [dot, left, right] = Array.from(a).reduce((sums, value, i) => {
    const other = b[i] as number
    return [sums[0]! + value * other, sums[1]! + value * value, sums[2]! + other * other]
  }, [0, 0, 0]) as [number, number, number]
  return a.length === b.length ? dot / Math.sqrt(left * right) : NaN
}
