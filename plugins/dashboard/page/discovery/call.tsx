import { Suspense, lazy } from 'preact/compat'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from '../api.js'
import { Button, Copy, Field, Guard, Section, Select, Trouble } from '../ui/parts.js'
import { Frames } from './frames-view.js'
import { callOnce, callStream, openSession } from './run.js'
import { problemsOf } from './schema.js'
import type { Arrived } from './frames-view.js'
import type { Frame } from './frames.js'
import type { Framing, Session } from './run.js'
import type { Problem, Schema } from './schema.js'
import type { Descriptor } from './target.js'

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
    setOutcome((had) =>
      ({ ...had, frames: [...had.frames, { frame, afterMs: nowMs - had.startedMs }] }))
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
  const [text, setText] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const [note, setNote] = useState<string | null>(null)
  const asJson = text !== null
  const show = (): void => { setText(JSON.stringify(value, null, 2)) }
  const read = (typed: string): void => {
    setText(typed)
    try {
      onChange(JSON.parse(typed))
      setProblem(null)
    } catch (error) {
      setProblem((error as Error).message)
    }
  }
  return (
    <div class="form">
      <div class="inline">
        <strong>{name}</strong>
        <Button
          kind="quiet" disabled={problem !== null || note !== null}
          onClick={asJson ? () => { setText(null) } : show}
        >
          {asJson ? 'As a form' : 'As JSON'}
        </Button>
        {note !== null && <span class="hint">{note}</span>}
      </div>
      {asJson
        ? (
            <>
              <Field
                label={`${name} as JSON`} unseen class="mono" rows={10} spellcheck={false} value={text}
                onText={read}
              />
              {problem !== null && <p class="problem" role="alert">{problem}</p>}
            </>
          )
        : (
            <Guard
              onFail={() => {
                setNote('The form cannot show this schema.')
                show()
              }}
            >
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
