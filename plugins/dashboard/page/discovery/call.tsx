import { lazy, Suspense } from 'preact/compat'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, chunksOf, serverEvents } from '../api.js'
import { JsonField } from '../ui/json.js'
import { Badge, Button, Copy, Guard, Section, Select, Trouble } from '../ui/parts.js'
import { problemsOf, type Problem, type Schema } from './schema.js'
import { FrameParser, isTerminal } from '../../../capabilities/frames/parser.js'
import { endingOf, frameOfEvent, framesIn, mediaOf, type Frame } from './frames.js'
import { nodeId, request, target, type Descriptor } from './target.js'
import { playInto, type Player } from '../ui/player.js'
import { bytes, count, span } from '../ui/text.js'
import { save } from '../happened/parts.js'

const SchemaForm = lazy(async () => (await import('./form.js')).SchemaForm)

interface Outcome {
  running: boolean, startedMs: number, frames: readonly Arrived[]
  result: { value: unknown } | null, error: Error | null
}

const NOTHING: Outcome = { running: false, startedMs: 0, frames: [], result: null, error: null }

function useCall (descriptor: Descriptor) {
  const [outcome, setOutcome] = useState(NOTHING)
  const stop = useRef<() => void>(() => {})
  const session = useRef<Session | null>(null)
  useEffect(() => () => { stop.current() }, [])
  const add = (frame: Frame): void => {
    const nowMs = performance.now()
    setOutcome((had) => ({ ...had, frames: [...had.frames, { frame, afterMs: nowMs - had.startedMs }] }))
  }
  const over = (more: Partial<Outcome>): void => {
    setOutcome((had) => ({ ...had, ...more, running: false }))
  }
  const start = async (payload: unknown, framing: Framing): Promise<void> => {
    const abort = new AbortController()
    stop.current = () => { abort.abort() }
    session.current = null
    setOutcome({ ...NOTHING, running: true, startedMs: performance.now() })
    const mode = descriptor.io_mode
    if (mode === 'client_streaming' || mode === 'bidirectional') {
      const opened = openSession(descriptor, payload, {
        frame: add, over: (why) => { over(why === null ? {} : { error: new Error(why) }) }
      })
      session.current = opened
      stop.current = () => { opened.cancel() }
      return
    }
    try {
      if (mode === 'unary') over({ result: { value: await callOnce(descriptor, payload, abort.signal) } })
      else {
        for await (const frame of callStream(descriptor, payload, framing, abort.signal)) add(frame)
        over({})
      }
    } catch (error) {
      over(abort.signal.aborted ? {} : { error: error as Error })
    }
  }
  return { outcome, start, stop: () => { stop.current() }, session }
}

export function CallView ({ descriptor, onStale }: { descriptor: Descriptor, onStale: () => void }) {
  const [payload, setPayload] = useState<unknown>({})
  const [framing, setFraming] = useState<Framing>('frames')
  const [checked, setChecked] = useState<readonly Problem[]>([])
  const { outcome, start, stop, session } = useCall(descriptor)
  const mode = descriptor.io_mode
  const takes = mode === 'client_streaming' || mode === 'bidirectional'
  const go = (): void => {
    const problems = problemsOf(descriptor.input_schema, payload)
    setChecked(problems)
    if (problems.length === 0) void start(payload, framing)
  }
  const { running, startedMs, error, result, frames } = outcome
  return (
    <Section title="Call it">
      <Payload schema={descriptor.input_schema} value={payload} onChange={setPayload} name="Payload" />
      {checked.length > 0 && (
        <ul class="problem" role="alert">
          {checked.slice(0, 10).map(({ path, message }, index) => (
            <li key={index}>{path.length > 0 && <code>{path.join('.')}</code>} {message}</li>
          ))}
        </ul>
      )}
      {mode === 'server_streaming' && (
        <div class="filter">
          <Select
            label="How the stream comes" options={FRAMINGS} value={framing}
            onText={(value) => { setFraming(value as Framing) }}
          />
        </div>
      )}
      <div class="inline">
        <Button kind="main" onClick={go} disabled={running}>Call</Button>
        {running && <Button onClick={stop}>Stop</Button>}
        <span class="hint">with the revision <Copy text={descriptor.revision} /> pinned</span>
      </div>
      {takes && running && session.current !== null && (
        <Chunks schema={descriptor.input_chunk_schema ?? {}} session={session.current} />
      )}
      {error !== null && (error instanceof ApiError && error.reason === 'revision_mismatch'
        ? <Trouble error={error} again={onStale} action="Read it again" />
        : <Trouble error={error} />)}
      {result !== null && (
        <pre class="raw" tabIndex={0} aria-label="Result">{JSON.stringify(result.value, null, 2)}</pre>
      )}
      {mode !== 'unary' && <Frames key={startedMs} frames={frames} running={running} />}
    </Section>
  )
}

const FRAMINGS = [
  ['frames', 'frames (application/vnd.svc.frames)'], ['events', 'server-sent events (text/event-stream)']
] as const

interface PayloadProps { schema: Schema, value: unknown, onChange: (value: unknown) => void, name: string }

/** A payload input, as a form or as JSON; switching keeps the value. */
function Payload ({ schema, value, onChange, name }: PayloadProps) {
  const [asJson, setAsJson] = useState(false)
  const [formFails, setFormFails] = useState(false)
  return (
    <div class="form">
      <div class="inline">
        <strong>{name}</strong>
        {formFails
          ? <span class="hint">The form cannot show this schema.</span>
          : (
              <Button kind="quiet" onClick={() => { setAsJson(!asJson) }}>
                {asJson ? 'As a form' : 'As JSON'}
              </Button>
            )}
      </div>
      {asJson || formFails
        ? <JsonField label={`${name} as JSON`} unseen rows={10} value={value} onValue={onChange} />
        : (
            <Guard onFail={() => { setFormFails(true) }}>
              <Suspense fallback={<p class="waiting">Loading the form…</p>}>
                <SchemaForm id={name.toLowerCase()} schema={schema} value={value} onChange={onChange} />
              </Suspense>
            </Guard>
          )}
    </div>
  )
}

function Chunks ({ schema, session }: { schema: Schema, session: Session }) {
  const [chunk, setChunk] = useState<unknown>({})
  return (
    <div class="chunks">
      <Payload schema={schema} value={chunk} onChange={setChunk} name="Chunk" />
      <div class="inline">
        <Button onClick={() => { session.send(chunk) }}>Send the chunk</Button>
        <Button onClick={() => { session.end() }}>That was all</Button>
      </div>
    </div>
  )
}

type Framing = 'frames' | 'events'

/** The body of a call, pinned to the discovered revision. */
function bodyOf (descriptor: Descriptor, payload: unknown): object {
  return {
    capability_id: descriptor.id, version: descriptor.version, descriptor_revision: descriptor.revision,
    ...(nodeId.value === '' ? {} : { target_node: nodeId.value }), payload
  }
}

async function callOnce (descriptor: Descriptor, payload: unknown, signal: AbortSignal): Promise<unknown> {
  const response = await request('/v1/capabilities/call', { body: bodyOf(descriptor, payload), signal })
  return (await response.json() as { result: unknown }).result
}

/** Calls a streaming capability; ends with the last frame, throws if the stream breaks off. */
async function * callStream (
  descriptor: Descriptor, payload: unknown, framing: Framing, signal: AbortSignal
): AsyncGenerator<Frame> {
  const accept = framing === 'frames' ? 'application/vnd.svc.frames' : 'text/event-stream'
  const response = await request('/v1/capabilities/stream',
    { body: bodyOf(descriptor, payload), signal, headers: { accept } })
  for await (const frame of framing === 'frames' ? binary(response) : events(response)) {
    yield frame
    if (isTerminal(frame.header.kind)) return
  }
  throw new Error('The stream ended without its last frame: the connection broke off.')
}

async function * binary (response: Response): AsyncGenerator<Frame> {
  const parser = new FrameParser()
  for await (const chunk of chunksOf(response)) yield * framesIn(parser, chunk)
}

async function * events (response: Response): AsyncGenerator<Frame> {
  for await (const event of serverEvents(response)) {
    if (event.kind === 'event') yield frameOfEvent(event.data)
  }
}

/** A call over a WebSocket, to which chunks can be sent while it answers. */
interface Session { send: (chunk: unknown) => void, end: () => void, cancel: () => void }

interface SessionEvents { frame: (frame: Frame) => void, over: (why: string | null) => void }

/** Opens a session and begins the call; calls `over` once at the end, with the error or null. */
function openSession (descriptor: Descriptor, payload: unknown, heard: SessionEvents): Session {
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
      for (const frame of framesIn(new FrameParser(), new Uint8Array(data))) {
        heard.frame(frame)
        if (isTerminal(frame.header.kind)) over(null)
      }
    } catch (error) { over((error as Error).message) }
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

interface Arrived { frame: Frame, afterMs: number }

const LISTED = 200

function Frames ({ frames, running }: { frames: readonly Arrived[], running: boolean }) {
  if (frames.length === 0) return running ? <p role="status" class="hint">No frame yet.</p> : null
  const media = mediaOf(frames.map(({ frame }) => frame))
  const last = frames.at(-1)!
  return (
    <>
      {media.map((piece) => <Media key={piece.type} {...piece} running={running} />)}
      <p class="hint" role="status">
        {count(frames.length, 'frame')}{running ? ' so far' : ` in ${span(last.afterMs)}`}
        {frames.length > LISTED && `; the newest ${LISTED} are shown`}
      </p>
      <ol class="rows" aria-label="Frames">
        {frames.slice(-LISTED).map(({ frame, afterMs }, index) => (
          <li key={frames.length - Math.min(LISTED, frames.length) + index} class="row">
            <div class="when">{span(afterMs)}</div>
            <FrameWords frame={frame} />
          </li>
        ))}
      </ol>
    </>
  )
}

function FrameWords ({ frame }: { frame: Frame }) {
  const { kind, sequence, payload, media, error } = frame.header
  const level = kind === 'failed' || kind === 'error' ? 'error' : isTerminal(kind) ? 'ok' : 'plain'
  return (
    <div class="grow">
      <p class="row-title">
        <Badge level={level}>{kind}</Badge> <span class="hint">{sequence}</span>
        {media !== null && (
          <span class="hint">
            {media.media_type}, {bytes(media.size)}, {span(media.duration_seconds * 1000)} from
            {' '}{span(media.timestamp_seconds * 1000)}
          </span>
        )}
      </p>
      {payload !== null && payload !== undefined && (
        <p><code class="payload">{JSON.stringify(payload)}</code></p>
      )}
      {error !== null && <p class="problem">{error.message} ({error.reason})</p>}
    </div>
  )
}

interface MediaProps { type: string, bytes: Uint8Array[], size: number, running: boolean }

/** The media of one type: shown or played if the browser supports the type, and offered as a download. */
function Media ({ type, bytes: parts, size, running }: MediaProps) {
  const blob = useMemo(() => running ? null : new Blob(parts as BlobPart[], { type }), [size, type, running])
  return (
    <div class="inline media">
      {type.startsWith('audio/') && <Sound type={type} parts={parts} blob={blob} />}
      {blob !== null && /^(video|image)\//.test(type) && <Picture type={type} blob={blob} />}
      {blob !== null && (
        <Button onClick={() => { save(blob, `answer.${endingOf(type)}`) }}>
          Save {bytes(size)} of {type}
        </Button>
      )}
    </div>
  )
}

/** Plays sound while its frames arrive; `blob` is null until the sound is complete. */
function Sound ({ type, parts, blob }: { type: string, parts: Uint8Array[], blob: Blob | null }) {
  const audio = useRef<HTMLAudioElement>(null)
  const player = useRef<Player | null>(null)
  const given = useRef(0)
  useEffect(() => {
    player.current = playInto(audio.current!, type)
    return () => { player.current?.close() }
  }, [type])
  useEffect(() => {
    for (const part of parts.slice(given.current)) player.current!.push(part as Uint8Array<ArrayBuffer>)
    given.current = parts.length
    if (blob !== null) player.current!.end(blob)
  }, [parts.length, blob])
  return <audio ref={audio} controls aria-label={type} />
}

function Picture ({ type, blob }: { type: string, blob: Blob }) {
  const [url, setUrl] = useState<string | null>(null)
  useEffect(() => {
    const made = URL.createObjectURL(blob)
    setUrl(made)
    return () => { URL.revokeObjectURL(made) }
  }, [blob])
  if (url === null) return null
  return type.startsWith('video/')
    ? <video controls src={url} aria-label={type} />
    : <img src={url} alt={`Picture of the answer: ${type}`} />
}
