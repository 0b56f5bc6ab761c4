import { signal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { call, caller, latest, origin } from '../link.js'
import { useLoaded, useNow } from '../ui/loading.js'
import { Section, Trouble } from '../ui/parts.js'
import { charts, parseMetrics, pointsOf, type Chart, type Reading, type Unit } from './metrics.js'
import { nameOf } from '../known.js'
import { bytes, clock, rate } from '../ui/text.js'

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

const dark = matchMedia('(prefers-color-scheme: dark)')
/** Whether the page has dark colours, which CSS does not give to canvases. */
const isDark = signal(dark.matches)
dark.addEventListener('change', () => { isDark.value = dark.matches })

const COLOURS = ['--accent', '--gpu', '--ok', '--warn']
const HEIGHT = 170

function figure (value: number | null | undefined, unit: Unit): string {
  if (value === null || value === undefined) return 'none'
  if (unit === 'bytes') return bytes(value)
  if (unit === 'bytesPerSecond') return rate(value)
  const size = Math.abs(value)
  const number = value.toFixed(size === 0 || size >= 10 ? 0 : size < 0.1 ? 3 : 2)
  return unit === 'count' ? number : unit === 'seconds' ? `${number} s` : `${number} / s`
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name)

function optionsOf ({ lines, unit }: Chart, width: number): uPlot.Options {
  const grid = { stroke: colour('--line'), width: 1 }
  const axis = { stroke: colour('--soft'), grid, ticks: { show: false } }
  return {
    width, height: HEIGHT, legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, values: (_, times) => times.map((time) => clock(time * 1000)) },
      { ...axis, size: 78, values: (_, values) => values.map((value) => figure(value, unit)) }
    ],
    series: [{}, ...lines.map(({ label }, index) => ({
      label, stroke: colour(COLOURS[index % COLOURS.length]!), width: 2, points: { size: 5 }
    }))]
  }
}

function ChartView ({ chart, points }: { chart: Chart, points: readonly (number | null)[][] }) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const newest = useRef(points)
  newest.current = points
  useEffect(() => {
    const element = box.current!
    const options = optionsOf(chart, element.clientWidth)
    const made = new uPlot(options, newest.current as uPlot.AlignedData, element)
    plot.current = made
    const sizes = new ResizeObserver(() => { made.setSize({ width: element.clientWidth, height: HEIGHT }) })
    sizes.observe(element)
    return () => {
      sizes.disconnect()
      made.destroy()
    }
  }, [chart, isDark.value])
  useEffect(() => { plot.current?.setData(points as uPlot.AlignedData) }, [points])
  const last = chart.lines.map(({ label }, index) =>
    ({ label, text: figure(points[index + 1]?.at(-1), chart.unit) }))
  const words = last.map(({ label, text }) => `${label} ${text}`).join(', ')
  return (
    <figure class="chart">
      <figcaption><h3>{chart.title}</h3><p class="hint">{chart.about}</p></figcaption>
      <div ref={box} role="img" aria-label={`${chart.title} over time; now ${words}`} />
      <ul class="legend">
        {last.map(({ label, text }, index) => (
          <li key={label}>
            <span class="swatch" style={{ background: `var(${COLOURS[index % COLOURS.length]})` }} />
            {label} <strong>{text}</strong>
          </li>
        ))}
      </ul>
    </figure>
  )
}
