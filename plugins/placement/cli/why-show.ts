import { plain, showSpan } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Part, Story } from './why-story.js'

const WIDTH = 8

/** Shows what became of a request on one page. */
export function showStory ({ out, err }: Pick<VerbContext, 'out' | 'err'>, story: Story): void {
  const { asked, entered, ran, parts, ended, around, logs, then, open } = story
  const ids = [['task', asked.taskId], ['command', asked.commandId]]
    .filter(([, id]) => id !== null).map((pair) => pair.join(' '))
  row(out, '', [ids.join(', ')])
  row(out, 'asked', [`${asked.kind ?? 'something'} of ${asked.modelId ?? 'a model that nobody noted'}` +
    `${asked.at === null ? '' : `, ${asked.at}`}`])
  row(out, 'entered', [entered ?? 'nobody noted where'])
  const instance = asked.instanceId === null ? '' : `, instance ${asked.instanceId}`
  row(out, 'ran', [ran.length === 0 ? 'nobody noted where' : `${ran.join(', ')}${instance}`])
  const took = story.tookMs === null ? [] : [showMs(story.tookMs)]
  const nodes = new Set(parts.map(({ node }) => node)).size
  row(out, 'took', [...took, ...parts.map((part) => partText(part, story.tookMs, nodes))])
  row(out, 'ended', [endText(story)])
  row(out, 'around', around.map(({ at, text }) => `${at}  ${text}`))
  row(out, 'logs', logs.map(({ at, node, text }) => `${at}  ${node}: ${text}`))
  row(out, 'then', then)
  const over = ended.how === 'unknown' ? 'nobody works on it' : 'it is over'
  row(out, 'now', [open ? 'it is still under way' : over])
  row(out, 'next', story.next)
  for (const text of story.unseen) err.line(`not looked at: ${plain(text)}`)
}

function row (out: VerbContext['out'], title: string, lines: readonly string[]): void {
  lines.forEach((line, i) => { out.line(plain(`${(i === 0 ? title : '').padEnd(WIDTH)}${line}`).trimEnd()) })
}

const ENDS = {
  completed: 'well', failed: 'failed', cancelled: 'cancelled', open: 'not yet', unknown: 'unknown'
} as const

function endText ({ ended: { how, reason, message } }: Story): string {
  return [ENDS[how], reason, message].filter((text) => text !== null && text !== '').join(': ')
}

function partText ({ words, node, startMs, tookMs }: Part, wholeMs: number | null, nodes: number): string {
  const share = wholeMs === null || wholeMs === 0 ? '' : `${Math.round(tookMs / wholeMs * 100)} %`.padStart(6)
  const times = `  +${showMs(startMs).padEnd(8)} ${showMs(tookMs).padStart(8)} ${share}`
  return `${times}  ${words}${nodes > 1 ? ` (${node})` : ''}`
}

/** A length of time: `0.4 ms`, `312 ms`, `1.31 s`, `2m10s`. */
function showMs (ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1000).toFixed(2)} s` : showSpan(ms / 1000)
}
