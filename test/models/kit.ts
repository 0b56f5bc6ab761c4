/** Generated models as a pull stores them, and results for them from svc's engine and transformers.js. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { EngineSession, ModelSpec } from '../../kernel/api/engine.js'
import { selectFiles } from '../../plugins/staging/hub/select.js'
import type { Dtype } from './graph.js'
import { derive } from '../../plugins/staging/test/cards-kit.js'

/** A job for transformers.js (judge.mjs). */
export interface Question { texts: string[], encode: { texts: string[], pooling: string, length?: number } }
/** Result from transformers.js: token ids and vectors. */
export interface Judged { texts: number[][], vectors: number[][] }

/** Runs transformers.js on the model in a folder. */
export async function judge (folder: string, dtype: Dtype, question: Question): Promise<Judged> {
  const script = fileURLToPath(new URL('judge.mjs', import.meta.url))
  const { NODE_OPTIONS: _, ...environment } = process.env
  const child = spawn(process.execPath, [script], { stdio: ['pipe', 'pipe', 'pipe'], env: environment })
  child.stdin.end(JSON.stringify({ root: dirname(folder), model: basename(folder), dtype, ...question }))
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (code !== 0) throw new Error(`transformers.js: ${err}`)
  return JSON.parse(out) as Judged
}

/** The spec of a model that a pull has fetched in this dtype. */
export async function pulled (folder: string, dtype: Dtype, threads = 2): Promise<ModelSpec> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const there = await Promise.all(entries.filter((entry) => entry.isFile()).map(async (entry) => {
    const path = join(entry.parentPath, entry.name)
    return { path: path.slice(folder.length + 1), size: (await stat(path)).size }
  }))
  const files = selectFiles(there, { variant: dtype })
  const card = await derive(folder, { modelId: `svc/${basename(folder)}`, revision: dtype, files })
  return { card, directory: folder, backend: 'cpu', threads, options: {} }
}

const never = new AbortController().signal

/** The payload of a task's only chunk. */
async function payloadOf (
  session: EngineSession, kind: string, payload: Record<string, unknown>
): Promise<Record<string, unknown>> {
  for await (const chunk of session.run({ kind, payload }, never)) return chunk.payload
  throw new Error(`${kind} answered nothing`)
}

/** The token ids for the payload's text. */
export async function idsOf (session: EngineSession, payload: Record<string, unknown>): Promise<number[]> {
  return (await payloadOf(session, 'tokenize', payload))['tokens'] as number[]
}

export async function vectorsOf (session: EngineSession, texts: readonly string[]): Promise<Float32Array[]> {
  const vectors: Float32Array[] = []
  for await (const { payload, media } of session.run({ kind: 'embed', payload: { input: texts } }, never)) {
    if (media !== undefined) vectors[payload['index'] as number] = new Float32Array(media.slice().buffer)
  }
  return vectors
}

/** Cosine similarity of two vectors. */
export function cosine (a: ArrayLike<number>, b: ArrayLike<number>): number {
  const [dot, left, right] = Array.from(a).reduce((sums, value, i) => {
    const other = b[i] as number
    return [sums[0]! + value * other, sums[1]! + value * value, sums[2]! + other * other]
  }, [0, 0, 0]) as [number, number, number]
  return a.length === b.length ? dot / Math.sqrt(left * right) : NaN
}
