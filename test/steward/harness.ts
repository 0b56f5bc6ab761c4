/** Breaks a cluster in one way after another, asks the steward for the cause, and runs its remedy. */
import { appendFileSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ask } from '../node/http.js'
import { root, svc } from '../node/kit.js'
import { judge, proposed, statesTruth } from './judge.js'
import type { Test } from 'tap'
import type { Answered, Fault, Group, Host, Scenario, Verdict } from './types.js'

/** Result of one scenario. */
export interface Outcome {
  readonly group: string
  readonly name: string
  readonly kind: 'fault' | 'fact' | 'healthy' | 'not broken'
  readonly verdicts: readonly Verdict[]
  /** Whether the steward called a healthy cluster faulty. */
  readonly claimed: boolean
  /** The remedy that was run, a command or a sentence; null if none was. */
  readonly ran: string | null
  /** An error in the test itself instead of in an answer. */
  readonly trouble: string | null
  /** Each question with its answer. */
  readonly transcript: readonly object[]
}

/** File of transcripts that `playGroup` writes. */
export const transcripts = join(root, '.tap/steward/transcripts.jsonl')

/** Runs a `svc …` command as an operator of that host would; ignores other text. */
export async function runAt (host: Host, command: string): Promise<void> {
  const words = (command.match(/"[^"]*"|\S+/g) ?? []).map((word) => word.replace(/^"(.*)"$/, '$1'))
  if (words[0] !== 'svc') return
  const { status, stderr } = await svc(
    [...words.slice(1), '--home', host.home, '--url', host.node.url], { env: { HOME: host.home } })
  if (status !== 0) throw new Error(`${command} ends with ${status}: ${stderr.slice(0, 300)}`)
}

/** Asks the question in each wording; the third uses the command line, unless the fault has a token. */
async function answersTo (fault: Fault): Promise<(Answered | null)[]> {
  const answers: (Answered | null)[] = []
  for (const [i, question] of fault.ask.entries()) {
    const host = fault.at[i % fault.at.length]!
    const byVerb = i === 2 && fault.token === undefined
    answers.push(await (byVerb ? verbAnswer(host, question) : apiAnswer(host, question, fault.token)))
  }
  return answers
}

async function apiAnswer ({ node }: Host, question: string, token?: string): Promise<Answered | null> {
  const answer = await ask(node, '/v1/steward/ask',
    { body: { question }, ...token === undefined ? {} : { token } })
  return answer.status === 200 ? answer.json as Answered : null
}

async function verbAnswer (host: Host, question: string): Promise<Answered | null> {
  const { status, stdout } = await svc(['ask', question, '--json', '--home', host.home, '--url',
    host.node.url])
  if (status !== 0 && status !== 1) return await apiAnswer(host, question)
  const lines = stdout.trim().split('\n')
  return JSON.parse(lines.length === 1 ? lines[0]! : stdout) as Answered
}

/** Health codes that nodes report because this machine is overloaded. */
async function codesOf (hosts: readonly Host[]): Promise<string[]> {
  const { nodeHealth } = (await ask(hosts[0]!.node, '/state')).json as {
    nodeHealth: Record<string, { reasons: { code: string }[] }> }
  return Object.values(nodeHealth).flatMap(({ reasons }) => reasons.map(({ code }) => code))
    .filter((code) => code === 'event_loop_lag')
}

/** Runs the remedy of the first usable answer, and waits until the fault is over. */
async function mended (fault: Fault, answers: readonly (Answered | null)[], verdicts: readonly Verdict[]):
Promise<string | null> {
  const { mend } = fault
  const i = verdicts.indexOf('right')
  if (mend === undefined || i < 0) return null
  const command = proposed(answers[i]!, mend.command)!
  await (mend.run ?? (async (it) => { await runAt(fault.at[i % fault.at.length]!, it) }))(command)
  await mend.holds()
  return command
}

/** Plays one scenario from its fault to its repair. */
export async function play<R> (t: Test, of: string, { name, break: broken }: Scenario<R>, rig: R):
Promise<Outcome> {
  let fault: Fault
  try {
    fault = await broken(rig, t)
  } catch (error) {
    const trouble = String(error)
    return { group: of, name, kind: 'not broken', verdicts: [], claimed: false, ran: null, trouble,
      transcript: [{ group: of, name, trouble }] }
  }
  const before = fault.truth.kind === 'healthy' ? await codesOf(fault.at) : []
  const answers = await answersTo(fault)
  if (fault.truth.kind === 'healthy') {
    fault = { ...fault, truth: { kind: 'healthy', besides: [...before, ...await codesOf(fault.at)] } }
  }
  let verdicts = answers.map((answer) => judge(answer, fault))
  let trouble: string | null = null
  let ran: string | null = null
  try {
    ran = await mended(fault, answers, verdicts)
  } catch (error) {
    trouble = String(error)
    verdicts = verdicts.map((verdict) => verdict === 'right' ? 'no command' : verdict)
  }
  try {
    if (ran === null) await fault.repair?.()
  } catch (error) {
    trouble = `not undone: ${String(error)}`
  }
  const { truth } = fault
  const claimed = truth.kind === 'healthy' && answers.some((one) => one !== null && !statesTruth(one, truth))
  const transcript = answers.map((answer, i) =>
    ({ group: of, name, question: fault.ask[i], verdict: verdicts[i], ran, trouble, ...shown(answer) }))
  return { group: of, name, kind: truth.kind, verdicts, claimed, ran, trouble, transcript }
}

function shown (answer: Answered | null): object {
  if (answer === null) return { diagnosis: null }
  const { diagnosis, sure, facts, remedies, unknown, calls } = answer
  return {
    diagnosis, sure, remedies, unknown, calls: calls.map(({ tool }) => tool),
    facts: facts.map(({ level, code, text }) => `${level} ${code}: ${text}`)
  }
}

/** Plays all scenarios of a group that `wanted` selects. */
export async function playGroup (t: Test, made: Group, wanted: (name: string) =>
boolean): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const scenarios = made.scenarios.filter(({ name }) => wanted(name))
  if (scenarios.length === 0) return outcomes
  const rig = await made.needs(t)
  for (const scenario of scenarios) {
    const outcome = await play(t, made.name, scenario, rig)
    outcomes.push(outcome)
    mkdirSync(dirname(transcripts), { recursive: true })
    appendFileSync(transcripts, outcome.transcript.map((line) => `${JSON.stringify(line)}\n`).join(''))
    t.comment(`${scenario.name}: ${outcome.verdicts.join(', ')} ${outcome.trouble ?? ''}`)
  }
  return outcomes
}

/** Number of answers per verdict, and the shares to report. */
export function sumsOf (outcomes: readonly Outcome[]): {
  counts: Record<string, number>, rightShare: number, wrongAndSureShare: number, claimed: string[] } {
  const all = outcomes.flatMap(({ verdicts }) => verdicts)
  const counts: Record<string, number> = {}
  for (const verdict of all) counts[verdict] = (counts[verdict] ?? 0) + 1
  const share = (verdict: Verdict): number => (counts[verdict] ?? 0) / Math.max(1, all.length)
  return { counts, rightShare: share('right'), wrongAndSureShare: share('wrong and sure'),
    claimed: outcomes.filter(({ claimed }) => claimed).map(({ name }) => name) }
}

/** A table with a line for each scenario, followed by the sums. */
export function table (outcomes: readonly Outcome[]): string {
  const marks: Record<Verdict, string> = { right: '+', unsure: '?', wrong: '-', 'wrong and sure': '!',
    'no command': 'c', 'no answer': '0' }
  const rows = outcomes.map(({ group: of, name, verdicts, trouble }) =>
    `${verdicts.map((verdict) => marks[verdict]).join(' ').padEnd(6)} ${of}: ${name}` +
    `${trouble === null ? '' : `  (${trouble.split('\n')[0]!.slice(0, 150)})`}`)
  const { counts, rightShare, wrongAndSureShare, claimed } = sumsOf(outcomes)
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  return ['+ right, c no command that mends it, ? unsure, - wrong, ! wrong and sure, 0 no answer', ...rows,
    `${outcomes.length} scenarios: ${JSON.stringify(counts)}; right ${percent(rightShare)}, wrong and sure ` +
    `${percent(wrongAndSureShare)}; healthy and called faulty: ${claimed.join(', ') || 'none'}`].join('\n')
}
