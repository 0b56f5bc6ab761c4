import { createServer } from 'node:http'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'
import { systemClock, type Clock } from '../../../kernel/index.js'
import { manifestDigest } from '../files/record.js'
import { fetchModel } from '../transfer/fetch.js'
import { CHUNK_BYTES, type ModelManifest } from '../types.js'
import { sha256 } from './files-kit.js'
import type { ByteRange, ChunkSource, FetchOptions, TransferLimits } from '../transfer/types.js'

export const MIB = 1024 * 1024

export type Content = ReadonlyMap<string, Buffer>

/** Bytes that differ at each offset, the same for the same seed. */
export function bytesOf (size: number, seed: number): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  let x = (seed * 2654435761 + 1) >>> 0
  for (let i = 0; i < size; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0
    bytes[i] = x >>> 24
  }
  return bytes
}

export function contentOf (sizes: Record<string, number>, seed = 1): Content {
  return new Map(Object.entries(sizes).map(([path, size], i) => [path, bytesOf(size, seed * 1000 + i)]))
}

export function manifestOf (content: Content): ModelManifest {
  const files = [...content].map(([path, bytes]) => ({
    path,
    size: bytes.length,
    sha256: sha256(bytes),
    chunkSha256: Array.from({ length: Math.ceil(bytes.length / CHUNK_BYTES) }, (_, i) =>
      sha256(bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES)))
  }))
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0)
  return { modelId: 'acme/model', revision: 'main', totalBytes, chunkBytes: CHUNK_BYTES, files }
}

export interface MemorySource extends ChunkSource {
  readonly asked: Array<ByteRange & { path: string }>
  given: number
}

/** A chunk source in memory that sends pieces; `spoil` may replace the body of a response. */
export function memorySource (content: Content, options: {
  id?: string
  kind?: 'store' | 'peer'
  piece?: number
  has?: (chunk: number) => boolean
  spoil?: (right: Buffer, call: number, signal: AbortSignal) => AsyncIterable<Uint8Array> | Promise<never>
} = {}): MemorySource {
  const { id = 'store', kind = 'store', piece = 64 * 1024, has = () => true, spoil } = options
  const source: MemorySource = {
    id,
    kind,
    has,
    asked: [],
    given: 0,
    async read (path, range, signal) {
      source.asked.push({ path, ...range })
      const right = content.get(path)!.subarray(range.start, range.end)
      const body = await (spoil?.(right, source.asked.length, signal) ?? inPieces(right, piece))
      return counted(body, (bytes) => { source.given += bytes })
    }
  }
  return source
}

async function * counted (
  body: AsyncIterable<Uint8Array>, count: (n: number) => void
): AsyncIterable<Uint8Array> {
  for await (const bytes of body) {
    count(bytes.length)
    yield bytes
  }
}

export async function * inPieces (bytes: Buffer, piece = 64 * 1024): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece)
}

/** The system clock with timers that keep the process alive. */
export const liveClock: Clock = {
  ...systemClock,
  after (ms, fn) {
    const timer = setTimeout(fn, ms)
    return () => { clearTimeout(timer) }
  }
}

/** Fetches with short pauses between attempts. */
export async function fetchInto (
  folder: string, manifest: ModelManifest, sources: readonly ChunkSource[],
  { limits, ...more }: Partial<Omit<FetchOptions, 'limits'>> & { limits?: Partial<TransferLimits> } = {}
): Promise<void> {
  await fetchModel({
    folder,
    manifest,
    sources: () => sources,
    clock: liveClock,
    random: () => 0.5,
    limits: { backoffMs: 2, backoffMaxMs: 10, ...limits },
    ...more
  })
}

export async function wrongFiles (folder: string, content: Content): Promise<string[]> {
  const wrong: string[] = []
  for (const [path, bytes] of content) {
    const there = await readFile(join(folder, path)).catch(() => undefined)
    if (there === undefined || !there.equals(bytes)) wrong.push(path)
  }
  return wrong
}

export const journalOf = (manifest: ModelManifest, ...lines: string[]): string =>
  `svc-journal 1 ${manifestDigest(manifest)}\n${lines.map((line) => `${line}\n`).join('')}`

/** A loopback HTTP server that serves ranges of files and counts bytes; may pause after each 64 KiB. */
export async function startServer (content: Content, { pauseMs = 0 } = {}): Promise<{
  url: string, sent: () => number, asked: () => number, connections: () => number
  until: (sent: number) => Promise<void>, close: () => Promise<void>
}> {
  let [sent, asked, connections] = [0, 0, 0]
  let waiting: { sent: number, done: () => void } | undefined
  const server = createServer((req, res) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range ?? '') ?? []
    const path = decodeURIComponent((req.url ?? '').slice(1))
    const bytes = content.get(path)!.subarray(Number(from), Number(to) + 1)
    asked += bytes.length
    res.writeHead(206, { 'content-length': bytes.length })
    let at = 0
    const next = (): void => {
      if (at >= bytes.length) { res.end(); return }
      const part = bytes.subarray(at, at += 64 * 1024)
      res.write(part, (error) => {
        if (error !== undefined && error !== null) return
        sent += part.length
        if (waiting !== undefined && sent >= waiting.sent) waiting.done()
        if (pauseMs > 0) setTimeout(next, pauseMs)
        else next()
      })
    }
    next()
  })
  server.on('connection', () => { connections++ })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    sent: () => sent,
    asked: () => asked,
    connections: () => connections,
    until: async (bytes) => { await new Promise<void>((done) => { waiting = { sent: bytes, done } }) },
    async close () {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  }
}

export function httpSource (url: string, id = 'store'): ChunkSource & { close: () => Promise<void> } {
  const agent = new Agent({ connections: 8 })
  return {
    id,
    kind: 'store',
    has: () => true,
    async read (path, { start, end }, signal) {
      const { body } = await request(url + encodeURIComponent(path), {
        dispatcher: agent, signal, headers: { range: `bytes=${start}-${end - 1}` }
      })
      return body
    },
    async close () { await agent.destroy() }
  }
}
