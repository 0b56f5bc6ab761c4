import t from 'tap'
import { systemClock, type Caller, type Declarations } from '../../../kernel/index.js'
import { declaredBy } from '../../../kernel/cli/declared.js'
import { bundled } from '../../index.js'
import { read } from '../reader/index.js'
import { TurnTools } from '../toolbox.js'
import type { Answer } from '../types.js'
import * as outside from './outside.js'
import * as strangers from './strangers.js'

const { NOW } = outside

const caller: Caller = { id: 'test', mode: 'direct', authorities: new Set(['read', 'operator']) }
const NONE = '{"error":{"message":"no such path","reason":"not_found","code":404}}'
const manifests = bundled.map(({ manifest }) => manifest)

async function answered (answers: Record<string, unknown>, text: string): Promise<Answer & { text: string }> {
  const tools = new TurnTools({
    api: { ask: async ({ path }: { path: string }) => {
      const then = !path.startsWith('/state?at=') ? undefined
        : { at: NOW, snapshot: { idx: 1, at: NOW }, state: answers['/state'], events: [], gaps: [] }
      const found = then ?? answers[path] ?? answers[path.replace(/\?.*/, '?')] ??
        answers[path.replace(/\?.*/, '')]
      return found === undefined ? { status: 404, text: NONE } : { status: 200, text: JSON.stringify(found) }
    } } as never,
    declarations: { manifests, off: [], whole: async () => declaredBy(manifests) } as unknown as Declarations,
    clock: { ...systemClock, mono: systemClock.mono, after: systemClock.after, now: () => Date.parse(NOW) },
    checker: () => () => null
  }, caller, new AbortController().signal)
  let said = ''
  let answer: Answer | undefined
  for await (const event of read(tools, { text, thread: [] })) {
    if (event.type === 'text') said += event.text
    if (event.type === 'answer') answer = event.answer
  }
  return { ...answer!, text: said }
}

type Questions = readonly (readonly [string, string, readonly RegExp[], (readonly RegExp[])?])[]

/** Fails if fewer than `least` answers are right, or if one calls well what is not. */
function asks (
  what: string, least: number, questions: Questions, answersIn: (name: never) => Record<string, unknown>
): void {
  t.test(what, { timeout: 120_000 }, async (t) => {
    const missed: string[] = []
    let wrong = 0
    for (const [name, question, must, not = []] of questions) {
      const answer = await answered(answersIn(name as never), question)
      const missing = must.filter((one) => !one.test(answer.text))
      const said = not.filter((one) => one.test(answer.diagnosis))
      t.comment(`${name}: ${question} => ${answer.diagnosis.slice(0, 200)}`)
      const faults = [...missing, ...said].join(' ')
      if (faults !== '') missed.push(`${name}: ${question}: ${faults}`)
      if (said.length > 0) wrong++
    }
    for (const one of missed) t.comment(one)
    t.ok(questions.length - missed.length >= least, `${questions.length - missed.length} answers are right`)
    t.equal(wrong, 0, 'no answer calls well what is not')
  })
}

asks('questions about broken clusters', 45, outside.QUESTIONS, outside.answersIn)
// 58 were right when these questions were first asked.
asks('questions of strangers', 75, strangers.QUESTIONS, strangers.answersIn)
