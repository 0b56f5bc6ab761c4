// Draws nodes and links: memory and accelerator as rings, the master in the middle, one line per live link.
import { memo } from 'preact/compat'
import { linkTo } from '../route.js'
import { bytes, percent, shortened } from '../ui/text.js'
import type { ClusterNode, Instance, State } from '../state.js'

/** Up to this many nodes every link is drawn; in larger clusters only those of the master. */
const ALL_LINKS = 12
/** Width of the drawing, narrower on a small screen, so that its text stays readable. */
const drawingWidth = (): number => innerWidth < 620 ? 440 : 960

interface Place { x: number, y: number }

/** Places nodes on an ellipse, or on a grid if there are more than 24; also returns the drawing's height. */
function layout (count: number, width: number): { places: Place[], height: number, size: number } {
  if (count > 24) {
    const columns = Math.ceil(Math.sqrt(count * width / 480))
    const cell = width / columns
    const places = Array.from({ length: count }, (_, i) => ({
      x: (i % columns + 0.5) * cell, y: (Math.floor(i / columns) + 0.5) * cell
    }))
    return { places, height: Math.ceil(count / columns) * cell, size: cell * 0.3 }
  }
  const height = count === 1 ? 180 : 340
  const [rx, ry] = count === 1 ? [0, 0] : [Math.min(width * 0.375, 110 + count * 60), 100]
  const places = Array.from({ length: count }, (_, i) => {
    const angle = -Math.PI / 2 + 2 * Math.PI * i / count
    return { x: width / 2 + rx * Math.cos(angle), y: height / 2 - 8 + ry * Math.sin(angle) }
  })
  return { places, height, size: count <= 8 ? 42 : 28 }
}

/** The pairs of nodes with a link to draw, by their indices. */
function linksOf (
  nodes: readonly ClusterNode[], connections: State['topology']['connections']
): Map<string, readonly [number, number]> {
  const index = new Map(nodes.map(({ id }, i) => [id, i]))
  const links = new Map<string, readonly [number, number]>()
  for (const [source, sinks] of Object.entries(connections)) {
    for (const [sink, edges] of Object.entries(sinks)) {
      const [a, b] = [index.get(source), index.get(sink)]
      if (a === undefined || b === undefined || !edges.some(({ session }) => session)) continue
      if (nodes.length > ALL_LINKS && !nodes[a]!.master && !nodes[b]!.master) continue
      const pair = a < b ? [a, b] as const : [b, a] as const
      links.set(pair.join(), pair)
    }
  }
  return links
}

export function Topology (
  { nodes, state, instances }: { nodes: readonly ClusterNode[], state: State, instances: readonly Instance[] }
) {
  const width = drawingWidth()
  const { places, height, size } = layout(nodes.length, width)
  const links = linksOf(nodes, state.topology.connections)
  const running = new Map<string, number>()
  for (const { nodeIds } of instances) for (const id of nodeIds) running.set(id, (running.get(id) ?? 0) + 1)
  return (
    <svg
      class="topology" viewBox={`0 0 ${width} ${height}`} role="group"
      aria-label="Nodes and the links between them"
    >
      {[...links].map(([key, [from, to]]) => {
        const [a, b] = [places[from]!, places[to]!]
        return <line key={key} x1={a.x} y1={a.y} x2={b.x} y2={b.y} />
      })}
      {nodes.map((node, i) => (
        <NodeMark
          key={node.id} x={places[i]!.x} y={places[i]!.y} size={size} name={node.name} id={node.id}
          level={node.live ? node.health.level : 'lost'} master={node.master}
          running={running.get(node.id) ?? 0} memory={ratioOf(node.memory)} memoryText={memoryText(node)}
          accelerator={acceleratorOf(node)} named={nodes.length <= 60}
        />
      ))}
    </svg>
  )
}

const ratioOf = (part: { used: number, total: number } | null): number | null =>
  part === null || part.total === 0 ? null : Math.round(100 * part.used / part.total) / 100

const memoryText = ({ memory }: ClusterNode): string =>
  memory === null ? 'memory unknown' : `memory ${bytes(memory.used)} of ${bytes(memory.total)}`

function acceleratorOf ({ system }: ClusterNode): number | null {
  const all = system?.accelerators ?? []
  const total = all.reduce((sum, { vramTotalBytes }) => sum + (vramTotalBytes ?? 0), 0)
  const used = all.reduce((sum, { vramUsedBytes }) => sum + (vramUsedBytes ?? 0), 0)
  return total === 0 ? null : Math.round(100 * used / total) / 100
}

interface NodeMarkProps extends Place {
  id: string, name: string, size: number, level: string, master: boolean, running: number
  memory: number | null, memoryText: string, accelerator: number | null, named: boolean
}

/** A node with primitive properties only, so that memo skips unchanged nodes. */
const NodeMark = memo(function NodeMark (props: NodeMarkProps) {
  const { x, y, size, id, name, level, master, running, memory, accelerator } = props
  const about = [
    name, master ? 'master' : '', level === 'ok' ? 'healthy' : level, props.memoryText,
    accelerator === null ? '' : `accelerator memory ${percent(accelerator)}`, `${running} running`
  ].filter((word) => word !== '').join(', ')
  return (
    <g class={`mark ${level}${master ? ' master' : ''}`}>
      <a href={linkTo('cluster', id)} aria-label={about}>
        <title>{about}</title>
        <circle cx={x} cy={y} r={size} class="disc" />
        <Ring x={x} y={y} radius={size} ratio={memory} kind="memory" />
        {accelerator !== null && (
          <Ring x={x} y={y} radius={size - 8} ratio={accelerator} kind="accelerator" />
        )}
      </a>
      <g aria-hidden="true">
        <text x={x} y={y + 5} text-anchor="middle" class="running">{running > 0 ? running : ''}</text>
        {master && <text x={x} y={y - size - 6} text-anchor="middle" class="crown">master</text>}
        {props.named && (
          <text x={x} y={y + size + 18} text-anchor="middle" class="name">
            {shortened(name, size < 30 ? 10 : 22)}
          </text>
        )}
      </g>
    </g>
  )
})

function Ring (
  { x, y, radius, ratio, kind }: Place & { radius: number, ratio: number | null, kind: string }
) {
  const length = 2 * Math.PI * radius
  return (
    <circle
      cx={x} cy={y} r={radius} class={`ring ${kind}`} transform={`rotate(-90 ${x} ${y})`}
      stroke-dasharray={`${length * (ratio ?? 0)} ${length}`}
    />
  )
}
