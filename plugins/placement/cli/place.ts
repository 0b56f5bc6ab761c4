import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { failedAttempts, InstanceProgress, instancesOf, type Progress } from '../progress/progress.js'
import { cacheOf, cacheWords } from '../../runners/cards/memory-forecast.js'
import { bodyOf, type Instance, type StateCard } from '../../runners/service.js'
import { cardOf, ranksOf } from '../place/instance.js'
import { REFUSALS } from '../planner/types.js'
import {
  engineHelp, isVerbError, plain, readModelId, readNumber, realPace, shellWord, showBytes, stallDetector,
  type Verb, type VerbContext, type VerbError, type WaitClock
} from '../../../kernel/cli/index.js'
import { findNodes } from '../../cluster/cli/nodes.js'
import { nameOf, rankText, type SeenState } from './state.js'
import { linesOf, type PreviewRow } from './sums.js'

interface Placed { message: string, command_id: string, instance_id: string, model_card: StateCard }

interface Ask {
  model_id: string
  sharding: 'Pipeline' | 'Tensor'
  /** If it is absent, the server uses the engine's default, Ring or LlamaRpc. */
  instance_meta?: 'Ring' | 'LlamaRpc'
  min_nodes: number
  chat_template?: string
  engine?: string
  context_length: number | undefined
  slots: number | undefined
  excluded: string[]
}

export function createPlace (pace: WaitClock): Verb {
  return {
    async run (ctx, [model], options) {
      const wanted = askOf(ctx, readModelId(ctx, model!), options)
      const state = await ctx.client.json<SeenState>('/state')
      const ask = { ...wanted, excluded: [...wanted.excluded, ...othersThan(ctx, options['node'], state)] }
      try {
        if (options['explain'] === true) await explain(ctx, ask, state)
        if (options['dryRun'] === true) await tryOut(ctx, ask, state)
        else return await place(ctx, pace, ask, options, state)
      } catch (error) {
        throw isVerbError(error) ? explained(ctx, ask, state, error, options) : error
      }
    }
  }
}

export default createPlace(realPace)

function askOf (ctx: VerbContext, model_id: string, options: Record<string, unknown>): Ask {
  const { sharding = 'pipeline', meta = '', exclude = [] } = options as
    { sharding?: string, meta?: string, exclude?: string[] }
  const known = named(['Pipeline', 'Tensor'], sharding)
  if (known === undefined) throw ctx.fail(2, `--sharding ${sharding}: expected pipeline or tensor`)
  const spread = meta === '' ? null : named(['Ring', 'LlamaRpc'], meta)
  if (spread === undefined) throw ctx.fail(2, `--meta ${meta}: expected Ring or LlamaRpc`)
  const instance = spread === null ? {} : { instance_meta: spread }
  return {
    model_id, sharding: known, ...instance, excluded: exclude,
    min_nodes: readNumber(ctx, '--min-nodes', options['minNodes'], { min: 1 }) ?? 1,
    context_length: readNumber(ctx, '--ctx', options['ctx'], { min: 2 }),
    slots: readNumber(ctx, '--slots', options['slots'], { min: 1 }),
    ...templateOf(ctx, options['chatTemplate']),
    ...options['engine'] === undefined ? {} : { engine: options['engine'] as string }
  }
}

/** Install ids of all nodes except that of `--node`; none without it. Throws VerbError (exit code 3 or 2). */
function othersThan (ctx: VerbContext, node: unknown, state: SeenState): string[] {
  const [only] = node === undefined ? [] : findNodes(ctx, state, [node as string])
  return only === undefined ? [] : Object.entries(state.nodeIdentities)
    .flatMap(([id, { nodeInstallId }]) => id === only ? [] : [nodeInstallId ?? id])
}

function templateOf (ctx: VerbContext, path: unknown): Pick<Ask, 'chat_template'> {
  if (path === undefined) return {}
  try {
    return { chat_template: readFileSync(resolve(ctx.io.cwd, path as string), 'utf8') }
  } catch (error) {
    throw ctx.fail(2, `--chat-template ${path as string}: ${(error as Error).message}`)
  }
}

function named<T extends string> (words: readonly T[], text: string): T | undefined {
  return words.find((word) => word.toLowerCase() === text.toLowerCase())
}

function queryOf ({ model_id: model, excluded, chat_template: _, engine: __, ...shape }: Ask,
  shaped: boolean): string {
  const query = new URLSearchParams({ model_id: model })
  const told = shaped ? shape : { context_length: shape.context_length, slots: shape.slots }
  for (const [key, value] of Object.entries(told)) if (value !== undefined) query.set(key, String(value))
  for (const ref of excluded) query.append('excluded_node_ids', ref)
  return query.toString()
}

async function explain (ctx: VerbContext, ask: Ask, state: SeenState): Promise<void> {
  const { previews } = await ctx.client.json<{ previews: PreviewRow[] }>(
    `/instance/previews?${queryOf(ask, false)}`)
  const row = rowFor(previews, ask)
  if (row === undefined || row.error !== null) return
  const { why } = row.details as { why: string }
  for (const line of [plain(why), ...linesOf(ask.model_id, row.details, (id) => nameOf(state, id))]) {
    ctx.err.line(line)
  }
}

/** The preview row with the requested plan; equal plans have one row, with the lowest number of nodes. */
function rowFor (rows: readonly PreviewRow[], ask: Ask): PreviewRow | undefined {
  return rows.filter((row) => (ask.min_nodes === 1 || row.sharding === ask.sharding) &&
    row.min_nodes <= ask.min_nodes && ranks(row) >= ask.min_nodes)[0]
}

const ranks = ({ details }: PreviewRow): number => ((details?.['ranks'] ?? []) as unknown[]).length

async function tryOut (ctx: VerbContext, ask: Ask, state: SeenState): Promise<void> {
  const instance = await ctx.client.json<Instance>(`/instance/placement?${queryOf(ask, true)}`)
  if (ctx.out.json) return ctx.out.value(instance)
  ctx.out.table(['RANK', 'NODE', 'LAYERS'], ranksOf(instance).map(({ nodeId, shard }) => [
    String(shard.deviceRank), nameOf(state, nodeId), `${shard.startLayer} to ${shard.endLayer}`
  ]))
  const { contextTokenLimit, slots } = bodyOf(instance)
  const [rank] = ranksOf(instance)
  if (slots !== undefined && rank !== undefined) {
    const card = cardOf(rank.shard)
    const { bytes } = cacheOf(card, contextTokenLimit, slots)
    ctx.err.line(`${cacheWords(card, contextTokenLimit, slots)} = ${showBytes(bytes)} of KV cache`)
  }
  ctx.err.line('nothing was placed; repeat without --dry-run to place it')
}

/**
 * Places a model for another verb, unless it is already placed, and waits at most `limitMs` until it is
 * ready. Removes a newly placed instance that cannot start. `yes` installs a missing engine without a prompt.
 * Throws VerbError.
 */
export async function makeReady (
  ctx: VerbContext, pace: WaitClock, modelId: string, limitMs: number, yes = false
): Promise<void> {
  const state = await ctx.client.json<SeenState>('/state')
  const waits = Object.entries(state.waitingInstances ?? {}).find(([, entry]) => entry.modelId === modelId)
  const there = instancesOf(state, modelId)[0] ?? waits?.[0]
  const ask = askOf(ctx, modelId, {})
  try {
    const id = there ?? (await request(ctx, ask, { yes })).instance_id
    const follower = new InstanceProgress(id, failedAttempts(state), pace.mono())
    const progress = await watch(ctx, pace, follower, limitMs)
    if (progress.kind === 'ready') return
    if (progress.kind === 'failed' && there === undefined) {
      await ctx.client.json(`/instance/${follower.instanceId}`, { method: 'DELETE' })
      throw ctx.fail(1, plain(`${modelId} cannot start: ${progress.message}; its instance was removed`))
    }
    checkEnd(ctx, modelId, follower.instanceId, progress)
    throw ctx.fail(4, timeUp(progress))
  } catch (error) {
    if (ctx.signal.aborted) throw ctx.fail(interrupted(ctx), 'interrupted')
    throw isVerbError(error) ? explained(ctx, ask, state, error) : error
  }
}

/** Seconds for which the placement is retried until a node reports the newly installed engine. */
const SEEN_SECONDS = 15

/**
 * Runs `work`. If no node has the engine for it, offers to install the engine and then runs `work` again.
 * Throws the error of `work`, or VerbError.
 */
async function withEngine<T> (ctx: VerbContext, yes: boolean, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isMissing(error)) throw error
    const help = await engineHelp(ctx, String(error.api?.details?.['engine']))
    if (await help.offer?.(ctx, yes) !== true) throw error
  }
  return await ctx.retry({ seconds: SEEN_SECONDS, again: isMissing, onWait: () => {} }, work)
}

const isMissing = (error: unknown): error is VerbError =>
  isVerbError(error) && error.api?.reason === 'engine_missing'

async function request (
  ctx: VerbContext, { excluded, ...shape }: Ask, options: Record<string, unknown>
): Promise<Placed> {
  const ttl = readNumber(ctx, '--ttl', options['ttl'], { min: 1 })
  const placed = await withEngine(ctx, options['yes'] === true, async () =>
    await ctx.client.json<Placed>('/place_instance', {
      method: 'POST',
      body: {
        ...shape, excluded_nodes: excluded, force: options['force'] === true,
        ...ttl === undefined ? {} : { ttl_seconds: ttl },
        ...options['makeRoom'] === true ? { make_room: true } : {}
      }
    }))
  ctx.err.line(plain(placed.message))
  return placed
}

async function place (
  ctx: VerbContext, pace: WaitClock, ask: Ask, options: Record<string, unknown>, before: SeenState
): Promise<number> {
  const placed = await request(ctx, ask, options)
  if (options['wait'] === false) {
    show(ctx, placed)
    ctx.err.line('it is starting; svc ps shows its progress')
    return 0
  }
  const limitMs = typeof options['wait'] === 'string' && options['wait'] !== '' ? ctx.wait! * 1000 : Infinity
  try {
    const follower = new InstanceProgress(placed.instance_id, failedAttempts(before), pace.mono())
    const progress = await watch(ctx, pace, follower, limitMs)
    return finish(ctx, { ...placed, instance_id: follower.instanceId }, progress)
  } catch (error) {
    if (!ctx.signal.aborted) throw error
    return interrupted(ctx)
  }
}

/** Milliseconds between two state fetches. */
const POLL_MS = 500
/** Seconds for which fetching the state is retried while the node does not answer; then the verb fails. */
const RETURN_SECONDS = 60

/**
 * Prints the progress until the instance is ready, has failed or is removed, or the time limit passes.
 * Follows the replacement of a lost instance.
 */
async function watch (
  ctx: VerbContext, pace: WaitClock, follower: InstanceProgress, limitMs: number
): Promise<Progress> {
  const began = pace.mono()
  const isStill = stallDetector(pace)
  let shown = ''
  let at = follower.instanceId
  for (;;) {
    const state = await ctx.retry({
      seconds: RETURN_SECONDS,
      again: ctx.notYet,
      onWait: (error) => { ctx.err.update(`${error.message.split('\n')[0]!}; retrying`) }
    }, () => ctx.client.json<SeenState>('/state'))
    const now = pace.mono()
    const { progress, over } = follower.look(state, now)
    if (over || isStill(stageOf(progress)) || now - began >= limitMs || ctx.signal.aborted) {
      ctx.err.end()
      return progress
    }
    if (follower.instanceId !== at && progress.kind !== 'waiting' && progress.kind !== 'gone') {
      at = follower.instanceId
      ctx.err.line(`it was placed again as ${at}`)
    }
    const text = progressText(state, progress)
    if (text !== shown) {
      shown = text
      if (ctx.io.stderr.isTTY === true) ctx.err.update(text)
      else ctx.err.line(text)
    }
    await pace.pause(POLL_MS, ctx.signal)
  }
}

/** Text of the progress without fields that change with every retry, so that only new stages are printed. */
const stageOf = (progress: Progress): string => JSON.stringify(progress, (key, value: unknown) =>
  key === 'waitsFor' || key === 'attemptId' || key === 'entry' ? undefined : value)

function progressText (state: SeenState, progress: Progress): string {
  switch (progress.kind) {
    case 'starting':
      return progress.ranks.map((rank) => `${nameOf(state, rank.nodeId)}: ${rankText(rank)}`).join('; ')
    case 'failed': return plain(`failed: ${progress.message}`)
    case 'waiting': return plain(`waiting for a node: ${progress.entry.message}`)
    case 'draining': return 'stopping'
    case 'ready': return 'ready'
    case 'gone': return 'waiting for the cluster'
  }
}

function interrupted (ctx: VerbContext): 130 {
  ctx.err.line('it is still starting; svc ps shows its progress, svc stop stops it')
  return 130
}

function show ({ out }: VerbContext, placed: Placed): void {
  if (out.json) out.value(placed)
  else out.line(placed.instance_id)
}

function finish (ctx: VerbContext, placed: Placed, progress: Progress): number {
  const { modelId, tasks } = placed.model_card
  checkEnd(ctx, modelId, placed.instance_id, progress)
  if (ctx.signal.aborted) return interrupted(ctx)
  show(ctx, placed)
  if (progress.kind !== 'ready') {
    ctx.err.line(timeUp(progress))
    return 4
  }
  ctx.err.line(`ready; try it: ${tryWith(modelId, tasks)}`)
  return 0
}

function checkEnd (ctx: VerbContext, modelId: string, instanceId: string, progress: Progress): void {
  if (progress.kind === 'failed') {
    throw ctx.fail(1, plain(`${modelId} cannot start: ${progress.message}; svc why ${modelId} explains ` +
      `it, svc stop ${instanceId} removes it`))
  }
  if (progress.kind === 'gone') throw ctx.fail(1, `the instance ${instanceId} was removed`)
}

const timeUp = (progress: Progress): string => progress.kind === 'waiting'
  ? plain(`the wait timed out; it is waiting for a node: ${progress.entry.message}`)
  : 'the wait timed out and it is still starting; svc ps shows its progress, svc why what is missing'

function tryWith (modelId: string, tasks: readonly string[]): string {
  if (tasks.includes('tts')) return `svc say "hello" --model ${modelId}`
  if (tasks.includes('stt')) return `svc listen FILE --model ${modelId}`
  return tasks.includes('chat') ? `svc run ${modelId} "hello"` : `svc why ${modelId}`
}

/** The options that a suggested command repeats. */
const REPEATED = ['node', 'exclude', 'minNodes', 'sharding', 'meta', 'ctx', 'slots', 'chatTemplate', 'engine',
  'ttl', 'makeRoom']

function explained (
  ctx: VerbContext, ask: Ask, state: SeenState, error: VerbError, options: Record<string, unknown> = {}
): VerbError {
  const { api } = error
  if (api === undefined) return error
  const given = REPEATED.filter((key) => options[key] !== undefined).flatMap((key) => [
    `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    ...[options[key]].flat().flatMap((value) => value === true ? [] : shellWord(String(value)))
  ])
  const asked = [ask.model_id, ...given].join(' ')
  for (const line of linesOf(asked, api.details, (id) => nameOf(state, id))) ctx.err.line(line)
  if (api.reason === 'model_unknown') return ctx.fail(3, error.message)
  // Only these two reasons have their own exit codes; the other refusals exit with 1, not as a usage error.
  const known = api.reason === 'insufficient_memory' || api.reason === 'info_pending'
  const others = ['no_source', 'readings_disabled']
  const refused = !known && [...REFUSALS, ...others].some((reason) => reason === api.reason)
  return refused ? ctx.fail(1, error.message) : error
}
