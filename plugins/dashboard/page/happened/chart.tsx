import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { colours } from '../ui/theme.js'
import { bytes, clock, rate } from '../ui/text.js'
import type { Chart, Unit } from './metrics.js'

const COLOURS = ['--accent', '--gpu', '--ok', '--warn']
const HEIGHT = 170

export function figure (value: number | null | undefined, unit: Unit): string {
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

export function ChartView ({ chart, points }: { chart: Chart, points: readonly (number | null)[][] }) {
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
  }, [chart, colours.value])
  useEffect(() => { plot.current?.setData(points as uPlot.AlignedData) }, [points])
  const last = chart.lines.map(({ label }, index) =>
    ({ label, text: figure(points[index + 1]?.at(-1), chart.unit) }))
  const words = last.map(({ label, text }) => `${label} ${text}`).join(', ')
  return (
    <figure class="chart">
      <figcaption>
        <h3>{chart.title}</h3>
        <p class="hint">{chart.about}</p>
      </figcaption>
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
