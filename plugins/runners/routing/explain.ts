import { kernelError, SvcError, switchOn } from '../../../kernel/index.js'
import type { ModelCard, OffPlugin, RouteRequest } from '../../../kernel/index.js'
import type { AvailabilityReader } from '../../staging/service.js'
import type { BackendChoice } from '../machine/backends.js'
import { RETRY_PAUSE } from '../instances/runner-set.js'
import { LOAD_ERROR_CODES } from '../process/errors.js'
import { kindOf, serves } from '../process/states.js'
import { loadingText } from '../service.js'
import type { MissingReason, RunnerStatus } from '../service.js'
import type { Refusal } from './pick.js'

/** The links of a model's availability chain, in the order in which they are checked. */
export const LINKS = ['card', 'copy', 'backend', 'placement', 'runner', 'request'] as const
export type ChainLinkName = (typeof LINKS)[number]

export interface CopyFacts {
  live: readonly string[]
  /** Nodes that had the files but do not respond. */
  lost: readonly string[]
  receiving: readonly string[]
}

/** This node's facts about a model. Omitted facts are not checked. */
export interface ChainFacts {
  modelId: string
  /** The requested task; null to ask about the model only. */
  capability: string | null
  known: readonly string[]
  card: Pick<ModelCard, 'engine' | 'tasks'> | null
  /** Why the model's card exists but cannot be read. */
  cardProblem?: string | undefined
  copies?: CopyFacts | undefined
  /** Name of a store host whose model list this node does not have. */
  silentStore?: string | undefined
  /** The disabled plugin that provides the model or its engine. */
  off?: OffPlugin | undefined
  backend: BackendChoice | null
  /** True if another live node runs the model or could run it, so this node needs no backend for it. */
  elsewhere: boolean
  placed: boolean
  nodes?: readonly string[]
  /** Names of the instance's nodes that do not respond. */
  lost?: readonly string[] | undefined
  draining?: boolean
  /** Why the model is not placed, if known. */
  absence?: MissingReason | null
  /** The least advanced runner of the instance closest to ready. */
  runner: RunnerStatus | null
  /** True in a new session while this node does not have the placements yet. */
  learning?: boolean
  /** Why the instance closest to ready failed. */
  failure?: { instanceId: string, message: string, code?: string | undefined } | undefined
}

export interface Found {
  /** True if the link works; null if an earlier link is broken. */
  ok: boolean | null
  message: string
  /** The operator's next step; null unless the link is broken. */
  remedy: string | null
  /** Reason in snake_case; null unless the link is broken. */
  code: string | null
  /** ISO time of the next attempt, if known. */
  nextTryAt?: string | undefined
  /** True if waiting will not help even though the model is placed. */
  final?: boolean | undefined
}

export type ChainLink = Omit<Found, 'nextTryAt' | 'final'> & { link: ChainLinkName }

export interface BrokenLink extends Found {
  link: ChainLinkName
  remedy: string
  /** True if the model is placed or waits for a place, so the same request may succeed soon. */
  comes: boolean
}

export interface ModelChain { links: ChainLink[], broken: BrokenLink | null }

/** Reads the facts once and returns a function that builds the chain of any model. */
export type ReadChains = () => Promise<(modelId: string, capability: string | null) => ModelChain>

export const intactLink = (message: string): Found => ({ ok: true, message, remedy: null, code: null })
export const brokenLink = (code: string, message: string, remedy: string): Found & { remedy: string } =>
  ({ ok: false, message, remedy, code })

const FIND: Record<ChainLinkName, (facts: ChainFacts) => Found> = {
  card: cardLink,
  copy: copyLink,
  backend: backendLink,
  placement: placementLink,
  runner: (facts) => ({ ...runnerLink(facts), nextTryAt: nextTryOf(facts.runner) }),
  request: requestLink
}

/**
 * Builds every link of the chain from the facts, with messages and remedies; links after the first broken
 * one are unknown. Pure.
 */
export function explain (facts: ChainFacts): ModelChain {
  return follow((link) => FIND[link](facts), (link) => link !== 'request' && isWanted(facts))
}

/** Checks the links up to the first broken one; `comes` is true if that link may recover by itself soon. */
export function follow (
  find: (link: ChainLinkName) => Found, comes: (link: ChainLinkName) => boolean
): ModelChain {
  let broken: BrokenLink | null = null
  const links = LINKS.map((link): ChainLink => {
    if (broken !== null) return { link, ok: null, message: 'not checked', remedy: null, code: null }
    const { nextTryAt, final, ...found } = find(link)
    if (found.ok === false) {
      broken = { link, ...found, remedy: found.remedy ?? '', comes: comes(link), nextTryAt, final }
    }
    return { link, ...found }
  })
  return { links, broken }
}

/** Explains why a served model refuses a request. `starting`: this node has a runner of the model. */
export function explainRefusal (modelId: string, { code, nodeIds }: Refusal, starting: boolean): BrokenLink {
  return code === 'other_node_named'
    ? {
        link: 'placement', comes: starting, ...brokenLink(code,
          `the requested node does not serve it, only ${nodeIds.join(', ')}`,
          'Choose another node or none (target_node, --node), or place it there: ' +
          `\`svc place ${modelId} --node NODE\`.`)
      }
    // The runner was ready a moment ago, so it may soon be ready again.
    : { link: 'runner', comes: true, ...brokenLink(code, 'its runner is not ready', 'Try again shortly.') }
}

function isWanted ({ placed, draining, absence, learning }: ChainFacts): boolean {
  return learning === true || absence?.waits === true || (placed && draining !== true)
}

/**
 * The error for a model that cannot answer: `wrong_task` if it does not support the task; otherwise
 * `no_instance`, with status 503 if the model is placed or waits for a place, else 404.
 */
export function noInstance (modelId: string, broken: BrokenLink, now: number): SvcError {
  const { link: brokenLink, remedy, comes, nextTryAt, final } = broken
  if (brokenLink === 'request') {
    return kernelError('wrong_task', `${modelId}: ${broken.message}.`, { model: modelId, brokenLink, remedy })
  }
  const message = `No instance found for model ${modelId}: ${broken.message}.`
  // Bound the wait, because the time may come from another node's clock.
  const seconds = Math.min(Math.ceil((Date.parse(nextTryAt ?? '') - now) / 1000), RETRY_MAX_SECONDS)
  const again = seconds > 0 && final !== true ? { retryAfterSeconds: seconds } : {}
  const details = { model: modelId, brokenLink, remedy, ...again }
  return comes
    ? new SvcError('no_instance', { ...final === true ? FINAL : COMES, message, remedy }, message, details)
    : kernelError('no_instance', message, details)
}

const FINAL = { status: 503, retryable: false }
const COMES = { status: 503, retryable: true, retryAfterSeconds: 1 }
/** Limit on Retry-After: the longest pause before a runner that gave up starts again. */
const RETRY_MAX_SECONDS = RETRY_PAUSE.maxMs / 1000

/** The broken link for a model that may exist only in the store, which is unreachable. */
const storeUnreachable = (what: string, store: string): Found => brokenLink('store_unreachable',
  `${what}, and the store on ${store}, which may have it, cannot be reached`,
  `Start ${store} again: \`svc up\` there; \`svc nodes\` shows it.`)

function cardLink ({ card, cardProblem, known, modelId, silentStore, off }: ChainFacts): Found {
  if (card !== null) return intactLink(`${card.tasks.join(', ') || 'no task'}, runs on engine ${card.engine}`)
  if (cardProblem !== undefined) {
    return brokenLink('card_unreadable', cardProblem,
      'Reinstall the package that contains the model, then restart.')
  }
  if (off !== undefined) {
    return brokenLink('plugin_off', `it comes with the plugin ${off.plugin}, which is off`, switchOn(off))
  }
  if (silentStore !== undefined) return storeUnreachable(`no model is called ${modelId} here`, silentStore)
  return brokenLink('model_unknown', `no model is called ${modelId} here`, known.length === 0
    ? `Download it: \`svc pull ${modelId}\`, or enable a plugin that provides one: \`svc plugin ls\`.`
    : `Use one of: ${known.join(', ')}; or download it: \`svc pull ${modelId}\`.`)
}

/** A copy on any node is enough, because the node that runs the model fetches the files from there. */
function copyLink ({ copies, modelId, runner, silentStore }: ChainFacts): Found {
  if (copies === undefined) {
    return intactLink(runner !== null && serves(kindOf(runner)) ? 'a runner has them loaded' : 'not known')
  }
  const { live, lost, receiving } = copies
  if (live.length > 0) return intactLink(`on ${live.join(', ')}`)
  if (lost.length > 0) {
    return brokenLink('node_lost', `its files are only on ${lost.join(', ')}, which cannot be reached`,
      'Start the node again (`svc up` there; `svc nodes` shows it), or download the files: ' +
      `\`svc pull ${modelId}\`.`)
  }
  if (receiving.length === 0 && silentStore !== undefined) {
    return storeUnreachable('no reachable node has its files', silentStore)
  }
  return receiving.length > 0
    ? brokenLink('files_coming', 'its files are being transferred', SHOWN_BY_DOWNLOADS)
    : brokenLink('files_missing', 'no node has its files', `Download them: \`svc pull ${modelId}\`.`)
}

function backendLink ({ backend, card, elsewhere, off }: ChainFacts): Found {
  if (backend !== null && backend.backend !== null) return intactLink(`${backend.backend} is available`)
  if (elsewhere) return intactLink('another node has one')
  if (backend === null && off !== undefined) {
    return brokenLink('plugin_off',
      `its engine ${card?.engine ?? ''} comes with the plugin ${off.plugin}, which is off`, switchOn(off))
  }
  return backend === null
    ? brokenLink('plugin_off', `no enabled plugin provides its engine ${card?.engine ?? ''}`,
        'Install a plugin that provides it: `svc plugin ls` lists the installed ones.')
    : brokenLink(backend.code ?? 'backend_missing', backend.problem, backend.remedy)
}

function placementLink ({ placed, draining, absence, learning, modelId, nodes = [] }: ChainFacts): Found {
  const anew = `Place it: \`svc place ${modelId}\`.`
  if (placed && draining !== true) return intactLink(nodes.length === 0 ? 'placed' : `on ${nodes.join(', ')}`)
  if (absence != null) return brokenLink(absence.code, absence.problem, absence.remedy)
  if (learning === true) {
    return brokenLink('session_new', 'the placements are not known yet: the session has just begun',
      'Try again shortly.')
  }
  return draining === true
    ? brokenLink('draining', 'it is being stopped and accepts no new requests', anew)
    : brokenLink('not_placed', 'it is not placed on any node', anew)
}

const SHOWN_BY_DOWNLOADS = 'Try again shortly; `svc downloads` shows how far they are.'
const SHOWN_BY_PS = 'Try again shortly; `svc ps` shows how far it is.'

function runnerLink ({ runner, failure, copies, modelId, lost = [] }: ChainFacts): Found {
  if (runner !== null && serves(kindOf(runner))) return intactLink('every runner is ready')
  if (runner === null && lost.length > 0) {
    return brokenLink('node_lost', `${lost.join(', ')}, where it is placed, cannot be reached`,
      'Start the node again with `svc up` there; otherwise it moves to another one shortly, if it fits.')
  }
  const waits = runner !== null && 'RunnerIdle' in runner ? runner.RunnerIdle.waitsFor : undefined
  if (failure !== undefined) {
    const nextTryAt = nextTryOf(runner)
    const next = nextTryAt === undefined ? '' : `It restarts at ${nextTryAt}. To start it now: `
    const final = LOAD_ERROR_CODES.some((code) => code === failure.code)
    const given = failure.code === 'chat_template_unreadable' ? ' --chat-template FILE' : ''
    const files = failure.code !== 'load_failed' ? '' : `, \`svc rm ${modelId}\`, \`svc pull ${modelId}\` ` +
      `(of a folder \`svc pull ./FOLDER --as ${modelId}\`)`
    const found = brokenLink(CODES[waits?.reason ?? ''] ?? CODES[failure.code ?? ''] ?? 'runner_failed',
      `it was given up: ${failure.message}`,
      `${next}Fix the cause (\`svc logs --model ${modelId}\` shows it), then ` +
      `\`svc stop ${failure.instanceId}\`${files} and \`svc place ${modelId}${given}\`.`)
    return { ...found, final }
  }
  if (runner !== null && 'RunnerFailed' in runner) {
    return brokenLink(CODES[runner.RunnerFailed.errorCode ?? ''] ?? 'runner_failed',
      `its runner failed: ${runner.RunnerFailed.errorMessage}`,
      `It restarts by itself; if that does not help: \`svc stop ${modelId}\`, then \`svc place ${modelId}\`.`)
  }
  const copying = copies?.receiving ?? []
  if (copying.length > 0 && (runner === null || 'RunnerIdle' in runner)) {
    return brokenLink('files_coming', `its files are being copied to ${copying.join(', ')}`,
      SHOWN_BY_DOWNLOADS)
  }
  if (waits !== undefined) {
    return brokenLink(CODES[waits.reason] ?? 'runner_waits',
      `its runner waits: ${waits.message.replace(/\.$/, '')}`,
      `It continues by itself once that is fixed; \`svc logs --model ${modelId}\` shows more.`)
  }
  return brokenLink('loading',
    runner === null ? 'its runner has not started yet' : `its runner ${phase(runner)}`,
    SHOWN_BY_PS)
}

function nextTryOf (runner: RunnerStatus | null): string | undefined {
  if (runner === null) return undefined
  if ('RunnerFailed' in runner) return runner.RunnerFailed.nextTryAt
  return 'RunnerIdle' in runner ? runner.RunnerIdle.waitsFor?.nextTryAt : undefined
}

/** Codes of broken links, by failure code or waiting reason. */
const CODES: Readonly<Partial<Record<string, string>>> = {
  insufficient_memory: 'does_not_fit', no_backend: 'backend_missing', runner_failed: 'runner_failed',
  warmup_timeout: 'runner_failed', download_failed: 'files_missing', model_not_found: 'files_missing',
  no_safe_fit: 'disk_full', insufficient_disk: 'disk_full', insufficient_storage: 'disk_full',
  store_unreachable: 'store_unreachable', store_not_configured: 'store_unreachable',
  unreachable: 'node_lost', rank_away: 'node_lost'
}

function phase (runner: RunnerStatus): string {
  if ('RunnerLoading' in runner) return `is ${loadingText(runner.RunnerLoading)}`
  if ('RunnerWarmingUp' in runner) return 'is warming up'
  if ('RunnerShuttingDown' in runner || 'RunnerShutdown' in runner) return 'is shutting down'
  return 'is starting'
}

export function requestLink (
  { capability, card, modelId }: Pick<ChainFacts, 'capability' | 'card' | 'modelId'>
): Found {
  if (capability === null || card === null ||
    card.tasks.includes(capability)) return intactLink('it can answer')
  return brokenLink('task_unsupported', `it does not support ${capability}, only ${card.tasks.join(' and ')}`,
    `Use ${modelId} for ${card.tasks.join(' or ')}, or choose a model that supports ${capability}.`)
}

/** Handler of GET /models/{id}/availability: every link of the chain, and the first broken one. */
export function availabilityHandler (
  chains: ReadChains
): (request: RouteRequest) => Promise<Record<string, unknown>> {
  return async (request) => {
    const { model_id: modelId } = request.params as { model_id: string }
    const { links, broken } = (await chains())(modelId, null)
    return {
      model_id: modelId, available: broken === null, broken_link: broken?.link ?? null,
      message: broken?.message ?? null, remedy: broken?.remedy ?? null, links
    }
  }
}

/** Reduces the availability chains to the fields of the model list. */
export function availabilityReader (chains: ReadChains): AvailabilityReader {
  return async () => {
    const chain = await chains()
    return (modelId) => {
      const { broken } = chain(modelId, null)
      const { link: brokenLink = null, remedy = null, comes: wanted = true } = broken ?? {}
      return { available: broken === null, brokenLink, remedy, wanted }
    }
  }
}
