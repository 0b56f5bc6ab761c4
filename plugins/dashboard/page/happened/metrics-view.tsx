import { useEffect, useMemo, useState } from 'preact/hooks'
import { call, caller, latest, origin } from '../link.js'
import { Section, Trouble } from '../ui/parts.js'
import { ChartView } from './chart.js'
import { charts, parseMetrics, pointsOf } from './metrics.js'
import { nameOf } from '../known.js'
import type { Reading } from './metrics.js'

/** Between two readings, ms. */
const EVERY_MS = 5000
/** Most readings: half an hour. */
const KEPT = 360

/** Kept while the page is open, so that the charts go on where they were. */
let kept: { at: string, readings: readonly Reading[] } = { at: '', readings: [] }

async function read (signal: AbortSignal): Promise<Reading> {
  const response = await call('/metrics', { signal })
  return { atMs: Date.now(), samples: parseMetrics(await response.text()) }
}

function useReadings (): { readings: readonly Reading[], error: Error | null } {
  const at = origin.value
  const [readings, setReadings] = useState(kept.at === at ? kept.readings : [])
  const [error, setError] = useState<Error | null>(null)
  useEffect(() => {
    const abort = new AbortController()
    let mine = kept.at === at ? kept.readings : []
    const look = async (): Promise<void> => {
      try {
        const reading = await read(abort.signal)
        if (abort.signal.aborted) return
        mine = [...mine, reading].slice(-KEPT)
        kept = { at, readings: mine }
        setReadings(mine)
        setError(null)
      } catch (cause) {
        if (!abort.signal.aborted) setError(cause as Error)
      }
    }
    void look()
    const timer = setInterval(() => { void look() }, EVERY_MS)
    return () => {
      abort.abort()
      clearInterval(timer)
    }
  }, [at, caller.value])
  return { readings, error }
}

export function Metrics () {
  const { readings, error } = useReadings()
  const drawn = useMemo(() =>
    charts.map((chart) => ({ chart, points: pointsOf(readings, chart) })), [readings])
  const here = latest.value.localNodeId
  return (
    <Section title={`Metrics of ${nameOf(here)}`}>
      <p class="hint">
        Read every {EVERY_MS / 1000} s while this is open. Every node has its own at
        {' '}<code>/metrics</code>, in the form that Prometheus reads.
      </p>
      {error !== null && <Trouble error={error} />}
      {error === null && readings.length < 2 && (
        <p role="status" class="hint">The first points come in a moment.</p>
      )}
      <div class="charts">
        {drawn.map(({ chart, points }) => <ChartView key={chart.title} chart={chart} points={points} />)}
      </div>
    </Section>
  )
}
