import { useMemo } from 'preact/hooks'
import { call, caller, latest, origin } from '../link.js'
import { Section, Trouble, useLoaded, useNow } from '../ui/parts.js'
import { ChartView } from './chart.js'
import { charts, parseMetrics, pointsOf } from './metrics.js'
import { nameOf } from '../known.js'
import type { Reading } from './metrics.js'

const EVERY_MS = 5000
/** Maximum number of readings, which together span half an hour. */
const KEPT = 360

/** Module state, so that the charts continue after switching tabs. */
let kept: { at: string, readings: readonly Reading[] } = { at: '', readings: [] }

function useReadings (): { readings: readonly Reading[], error: Error | null } {
  const at = origin.value
  const had = kept.at === at ? kept.readings : []
  const { value, error } = useLoaded(async (signal) => {
    const text = await (await call('/metrics', { signal })).text()
    kept = { at, readings: [...had, { atMs: Date.now(), samples: parseMetrics(text) }].slice(-KEPT) }
    return kept.readings
  }, [at, caller.value, useNow(EVERY_MS)])
  return { readings: value ?? had, error }
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
