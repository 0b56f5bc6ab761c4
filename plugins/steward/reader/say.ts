import type { Evidence } from '../../../kernel/cli/index.js'
import { clockWords } from './when.js'
import type { Asked } from './question.js'
import type { Worded } from './select.js'

/** Evidence as text, with the command that shows it if there is one. */
export function evidenceWords (evidence: Evidence): string {
  switch (evidence.kind) {
    case 'event': return `event ${evidence.idx} at ${evidence.at} (${evidence.name})`
    case 'trace': return `trace svc traces ${evidence.taskId}`
    case 'node': return `node ${evidence.name}`
    case 'error': return `error ${evidence.reason}`
    case 'log': return `log of ${evidence.node} at ${evidence.at}`
    case 'time': return `at ${evidence.at}`
    case 'path': return `GET ${evidence.path}`
  }
}

/** The lines that follow an answer's first sentence: facts, references, commands, and failed reads. */
export function restWords (asked: Asked, answer: Worded, zoneMin: number): string {
  const { diagnosis, facts, remedies, unknown } = answer
  const lines = facts.flatMap(({ text, evidence }) => {
    const refs = [...new Set(evidence.map(evidenceWords))].join(', ')
    // The first sentence already states this fact, so add only its evidence.
    if (diagnosis.includes(text)) return refs === '' ? [] : [`evidence: ${refs}`]
    return [`- ${text}${refs === '' ? '' : ` [${refs}]`}`]
  })
  return [
    ...timeWords(asked, zoneMin), ...lines,
    ...remedies.filter((one) => one !== diagnosis).map((text) => `next: ${text}`),
    ...unknown.map((text) => `not known: ${text}`)
  ].map((line) => `${line}\n`).join('')
}

function timeWords ({ when }: Asked, zoneMin: number): string[] {
  if (when === null) return []
  const [from, to] = [when.from, when.to].map((iso) => clockWords(iso, zoneMin))
  return [`time: ${from} to ${to}`]
}
