import { SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView } from '../../kernel/index.js'
import { PAGE_BYTES, PAGE_MS, SILENT_MS } from './limits.js'
import { readLine, readPage } from './lines.js'
import type { Gap, LogPage, NodeRef, NodeWord } from './lines.js'
import { serverEvents } from './sse.js'
import type { Step } from './steps.js'

export interface AskParts { cluster: Pick<Cluster, 'request'>, clock: Clock }

/** In whose name a node is asked, and until when anybody cares. */
export interface Asker { readonly caller: Caller, readonly signal: AbortSignal }

/** Why a node gave no lines. */
class AskError extends Error {
  readonly reason: string
  constructor (reason: string, message: string) {
    super(message)
    this.name = 'AskError'
    this.reason = reason
  }
}

export const refOf = ({ nodeId, name }: NodeView): NodeRef => ({ nodeId, node: name })

/** What to say of a node that gave no lines. */
export function wordOf (node: NodeRef, error: unknown): NodeWord {
  const known = error instanceof SvcError || error instanceof AskError
  return {
    ...node,
    error: {
      reason: known ? error.reason : 'garbage',
      message: known ? error.message : 'It answered with something that cannot be read.'
    }
  }
}

/** A page of another node. Throws an Error when it does not come whole and in time. */
export async function askPage (
  parts: AskParts, node: NodeView, path: string, asker: Asker
): Promise<LogPage> {
  const late = new AbortController()
  const cancel = parts.clock.after(PAGE_MS, () => {
    late.abort(new AskError('timeout', `It gave no whole answer within ${PAGE_MS / 1000} s.`))
  })
  try {
    const signal = AbortSignal.any([asker.signal, late.signal])
    const bytes = await open(parts, node, { path, caller: asker.caller, signal })
    const page = readPage(await textOf(bytes), refOf(node))
    if (page === null) throw new AskError('garbage', 'It answered with something that is no log.')
    return page
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error
  } finally {
    cancel()
  }
}

/**
 * What another node writes to its log, as it is written. Throws an Error when the node goes away, is silent
 * for too long or talks nonsense; ends when it ends the stream.
 */
export async function * remoteSteps (
  parts: AskParts, node: NodeView, path: string, asker: Asker
): AsyncGenerator<Step> {
  const silent = new AbortController()
  let heardAt = parts.clock.mono()
  const stopWatching = parts.clock.every(SILENT_MS / 3, () => {
    if (parts.clock.mono() - heardAt < SILENT_MS) return
    silent.abort(new AskError('timeout', `It has said nothing for ${SILENT_MS / 1000} s.`))
  })
  try {
    const signal = AbortSignal.any([asker.signal, silent.signal])
    const bytes = await open(parts, node, { path, caller: asker.caller, signal })
    for await (const { type, data } of serverEvents(bytes)) {
      heardAt = parts.clock.mono()
      yield stepOf(type, data, refOf(node))
      // While the reader was busy nobody listened.
      heardAt = parts.clock.mono()
    }
  } catch (error) {
    throw silent.signal.aborted ? silent.signal.reason : error
  } finally {
    stopWatching()
  }
}

function stepOf (type: string, data: string, node: NodeRef): Step {
  if (type === 'comment') return { lines: [], lost: 0 }
  const value = JSON.parse(data) as unknown
  if (type === 'gap') return { lines: [], lost: Math.max(0, Math.floor(Number((value as Gap).lost)) || 0) }
  const line = readLine(value, node)
  if (line === null) throw new AskError('garbage', 'It sent something that is no line of a log.')
  return { lines: [line], lost: 0 }
}

/** The body of an answer. Throws for another status than 200. */
async function open (
  { cluster }: AskParts, { installId, live }: NodeView,
  { path, caller, signal }: { path: string, caller: Caller, signal: AbortSignal }
): Promise<AsyncIterable<Uint8Array>> {
  if (!live) throw new AskError('unreachable', 'It gives no sign of life.')
  signal.throwIfAborted()
  const { status, body } = await cluster.request(installId, {
    method: 'GET', path, caller, signal, timeoutMs: PAGE_MS
  })
  body.on('error', () => {})
  const destroy = (): void => { body.destroy(signal.reason as Error) }
  if (signal.aborted) destroy()
  else signal.addEventListener('abort', destroy, { once: true })
  if (status === 200) return body as AsyncIterable<Uint8Array>
  body.destroy()
  throw new AskError('refused', `It answered with status ${status}.`)
}

async function textOf (bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of bytes) {
    size += part.byteLength
    if (size > PAGE_BYTES) throw new AskError('too_large', `It answered with over ${PAGE_BYTES} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
