import { serverEvents } from '../api.js'
import { FrameReader, frameOfEvent, isLast } from './frames.js'
import { nodeId, request, target } from './target.js'
import type { Frame } from './frames.js'
import type { Descriptor } from './target.js'

export type Framing = 'frames' | 'events'

/** The body of a call, pinned to the discovered revision. */
export function bodyOf (descriptor: Descriptor, payload: unknown): object {
  return {
    capability_id: descriptor.id, version: descriptor.version, descriptor_revision: descriptor.revision,
    ...(nodeId.value === '' ? {} : { target_node: nodeId.value }), payload
  }
}

export async function callOnce (
  descriptor: Descriptor, payload: unknown, signal: AbortSignal
): Promise<unknown> {
  const response = await request('/v1/capabilities/call', { body: bodyOf(descriptor, payload), signal })
  return (await response.json() as { result: unknown }).result
}

/** Calls a streaming capability; ends with the last frame, throws if the stream breaks off. */
export async function * callStream (
  descriptor: Descriptor, payload: unknown, framing: Framing, signal: AbortSignal
): AsyncGenerator<Frame> {
  const accept = framing === 'frames' ? 'application/vnd.svc.frames' : 'text/event-stream'
  const response = await request('/v1/capabilities/stream',
    { body: bodyOf(descriptor, payload), signal, headers: { accept } })
  for await (const frame of framing === 'frames' ? binary(response) : events(response)) {
    yield frame
    if (isLast(frame)) return
  }
  throw new Error('The stream ended without its last frame: the connection broke off.')
}

async function * binary (response: Response): AsyncGenerator<Frame> {
  const reader = new FrameReader()
  const source = response.body!.getReader()
  for (;;) {
    const { done, value } = await source.read()
    if (done) return
    yield * reader.push(value)
  }
}

async function * events (response: Response): AsyncGenerator<Frame> {
  for await (const { data } of serverEvents(response)) if (data !== '') yield frameOfEvent(data)
}

/** A call over a WebSocket, to which chunks can be sent while it answers. */
export interface Session { send: (chunk: unknown) => void, end: () => void, cancel: () => void }

export interface SessionEvents { frame: (frame: Frame) => void, over: (why: string | null) => void }

/** Opens a session and begins the call; calls `over` once at the end, with the error or null. */
export function openSession (descriptor: Descriptor, payload: unknown, heard: SessionEvents): Session {
  const { origin, token } = target.value
  const socket = new WebSocket(`${origin.replace(/^http/, 'ws')}/v1/capabilities/session`,
    token === null ? [] : ['svc', `svc.bearer.${token}`])
  socket.binaryType = 'arraybuffer'
  // randomUUID is unavailable on a page that came over http from another machine.
  const callId = [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16)).join('')
  const say = (message: object): void => { socket.send(JSON.stringify({ ...message, call_id: callId })) }
  let ended = false
  const over = (why: string | null): void => {
    if (ended) return
    ended = true
    heard.over(why)
    socket.close()
  }
  socket.onopen = () => { say({ kind: 'call', ...bodyOf(descriptor, payload) }) }
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
    try {
      for (const frame of new FrameReader().push(new Uint8Array(data))) {
        heard.frame(frame)
        if (isLast(frame)) over(null)
      }
    } catch (error) {
      over((error as Error).message)
    }
  }
  socket.onclose = ({ code, reason }) => {
    over(`The session was closed (${code}${reason === '' ? '' : `: ${reason}`}).`)
  }
  return {
    send: (chunk) => { say({ kind: 'chunk', payload: chunk }) },
    end: () => { say({ kind: 'end' }) },
    cancel () {
      if (socket.readyState === WebSocket.OPEN) say({ kind: 'cancel' })
      else over(null)
    }
  }
}
