import { useEffect, useState } from 'preact/hooks'
import { ApiError } from '../api.js'
import { ask, latest, past } from '../link.js'
import { linkTo } from '../route.js'
import { useLoaded } from '../ui/loading.js'
import { Button, Facts, Field, Section, Trouble } from '../ui/parts.js'
import { clock } from '../ui/text.js'
import { momentOf, pastState, type PastAnswer } from './moment.js'
import { nameOf } from '../known.js'

/** Milliseconds for which the slider must stay still before the page requests the past state. */
const REST_MS = 150

interface Range { first: number, last: number }

/** The range of event indices for which the node has a recorded state. */
async function rangeOf (signal: AbortSignal): Promise<Range> {
  const last = Math.max(1, latest.value.lastEventAppliedIdx)
  try {
    await ask('GET /state', { query: { at: '0' }, signal })
    return { first: 0, last }
  } catch (error) {
    const oldest = error instanceof ApiError ? error.details['oldest'] as { idx: number } | null : null
    if (oldest === null || oldest === undefined) throw error
    return { first: oldest.idx, last: Math.max(last, oldest.idx) }
  }
}

function useMoment (at: string): ReturnType<typeof useLoaded<PastAnswer>> {
  const [rested, setRested] = useState(at)
  useEffect(() => {
    const timer = setTimeout(() => { setRested(at) }, REST_MS)
    return () => { clearTimeout(timer) }
  }, [at])
  return useLoaded(async (signal) =>
    await ask('GET /state', { query: { at: rested }, signal }) as unknown as PastAnswer, [rested])
}

export function Past ({ asked: named }: { asked: string | null }) {
  const { value: range, error, again } = useLoaded(rangeOf, [])
  if (error !== null) return <Section title="Earlier"><Trouble error={error} again={again} /></Section>
  if (range === null) return <p class="waiting">Loading…</p>
  return <Moments key={named} range={range} named={named} />
}

function Moments ({ range, named }: { range: Range, named: string | null }) {
  const last = Math.max(range.last, latest.value.lastEventAppliedIdx)
  const [from, setFrom] = useState<string>(named ?? String(last))
  const { value, error, again } = useMoment(from)
  const whole = (): void => {
    const { idx, at } = momentOf(value!)
    past.value = { at: `${clock(at)} (event ${idx})`, state: pastState(value!) }
  }
  return (
    <Section
      title="A moment"
      aside={<Button kind="main" onClick={whole} disabled={value === null}>Show the page as it was</Button>}
    >
      <Slider range={{ ...range, last }} value={from} onChange={setFrom} />
      {error !== null && <Trouble error={error} again={again} />}
      {value !== null && <MomentFacts answer={value} />}
    </Section>
  )
}

interface SliderProps { range: Range, value: string, onChange: (value: string) => void }

function Slider ({ range, value, onChange }: SliderProps) {
  const idx = /^\d+$/.test(value) ? Number(value) : range.last
  return (
    <div class="moment">
      <Field
        label={`Moment: ${/^\d+$/.test(value) ? `event ${value} of ${range.last}` : clock(value)}`}
        type="range" min={range.first} max={range.last} value={String(idx)} onText={onChange}
      />
      <div class="inline">
        <label for="past-time">or at</label>
        <input
          id="past-time" class="time" type="datetime-local" step="1"
          onChange={({ currentTarget }) => {
            const time = new Date(currentTarget.value)
            if (!Number.isNaN(time.getTime())) onChange(time.toISOString())
          }}
        />
      </div>
    </div>
  )
}

function MomentFacts ({ answer }: { answer: PastAnswer }) {
  const { snapshot } = answer
  const { idx, at } = momentOf(answer)
  const { instances, topology, masterNodeId } = pastState(answer)
  return (
    <>
      <Facts
        list={[
          ['Time', clock(at)],
          ['Event', <a key="event" href={linkTo('happened', 'events', String(idx))}>{idx}</a>],
          ['Nodes', topology.nodes.map(nameOf).join(', ') || 'none'],
          ['Master', masterNodeId === null ? 'none' : nameOf(masterNodeId)],
          ['Instances', Object.keys(instances).length], ['Readings of', clock(snapshot.at)]
        ]}
      />
      {snapshot.omitted.length > 0 && (
        <p class="hint">Too large to be recorded, so not shown: {snapshot.omitted.join(', ')}.</p>
      )}
      {snapshot.stale && <p class="hint">The node knew no master then: it is its own view.</p>}
    </>
  )
}
