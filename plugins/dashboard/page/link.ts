// The page's connection to the cluster: its node, its token, and the next node after a failure.
import { batch, computed, signal } from '@preact/signals'
import { ApiError, send, type CallOptions, type Target } from './api.js'
import { bearerAfter, bearerAt, device, ended, learnNodes, newBearer, signs } from './device/own.js'
import { followState } from './replica.js'
import { emptyState, nodesOf, type State } from './state.js'
import type { Replies } from '../../../docs/reference/replies.js'

/** Milliseconds before the first further attempt to reach a node; each failure doubles the pause. */
const AGAIN_MS = 700
const LONGEST_MS = 15_000
/** Attempts at the current node before other nodes are tried. */
const ATTEMPTS = 2

/** `refused`: the node requires a token, or a different token. */
export type LinkStatus = 'connecting' | 'live' | 'lost' | 'refused'

/** The origin the page came from. */
export const home = location.origin
export const origin = signal(home)
/** Tokens by origin; a token is sent to its own node only. */
const tokens = signal<ReadonlyMap<string, string>>(new Map())
/** The token typed in for the current node, kept in memory only, so a reload drops it. */
export const typed = computed(() => tokens.value.get(origin.value) ?? null)
export const token = computed(() => typed.value ?? bearerAt(origin.value))
/** Identity of the caller, on which authorities depend; renewing a bearer does not change it. */
export const caller = computed(() =>
  typed.value ?? (token.value === null ? null : device.value?.deviceId ?? null))
export const status = signal<LinkStatus>('connecting')
/** A message about the connection, to show until the user dismisses it. */
export const notice = signal<string | null>(null)
export const latest = signal<State>(emptyState)
/** A past state that the page shows instead of the current one, and its time. */
export const past = signal<{ at: string, state: State } | null>(null)
export const state = computed(() => past.value?.state ?? latest.value)
/** Number of complete states received so far. */
export const arrivals = signal(0)

export const here = computed<Target>(() => ({ origin: origin.value, token: token.value }))

/** Sends a request to the current node. A paired device requests a new bearer if its bearer has expired. */
export async function call (path: string, options: CallOptions = {}): Promise<Response> {
  const target = here.value
  try {
    return await send(target, path, options)
  } catch (error) {
    const refused = error instanceof ApiError && error.status === 401
    if (!refused || !signsAt(target.origin)) throw error
    const fresh = await bearerAfter(target.origin, target.token)
    return await send({ origin: target.origin, token: fresh }, path, options)
  }
}

/** Whether requests to a node are signed as this browser's device. */
const signsAt = (at: string): boolean => !tokens.value.has(at) && signs()

export interface AskOptions extends Pick<CallOptions, 'body' | 'signal'> {
  /** Values for the placeholders in the route's path, in order. */
  params?: readonly string[]
  query?: URLSearchParams | Record<string, string>
}

/** Requests a route such as `GET /v1/tokens` and returns the parsed JSON answer. */
export async function ask<R extends keyof Replies> (
  route: R, { params = [], query, ...options }: AskOptions = {}
): Promise<Replies[R]> {
  const [method, path] = route.split(' ') as [NonNullable<CallOptions['method']>, string]
  const filled = params.reduce((at, one) => at.replace(/\{\w+\}/, encodeURIComponent(one)), path)
  const search = query === undefined ? '' : `?${new URLSearchParams(query)}`
  return await (await call(filled + search, { method, ...options })).json() as Replies[R]
}

let closeReplica = (): void => {}
let turn = 0
let attempts = 0
/** Failures since a node last answered. */
let failures = 0
let tried = new Set<string>()
let timer: ReturnType<typeof setTimeout> | undefined

export function connect (): void {
  clearTimeout(timer)
  closeReplica()
  const mine = ++turn
  const at = origin.value
  if (!signsAt(at) || bearerAt(at) !== null) return follow(at)
  newBearer(at).then(() => {
    if (mine !== turn) return
    follow(at)
    // If the list of nodes cannot be read, the page uses the nodes that it already knows.
    if (at === home) learnNodes(at).then(() => { remember(latest.value) }, () => {})
  }, (error: unknown) => {
    if (mine !== turn) return
    if (error instanceof ApiError && error.status > 0) {
      // A node may serve the public part of the state without authentication.
      notice.value = ended.value === null ? error.message : null
      follow(at)
    } else void lost(at)
  })
}

function follow (at: string): void {
  closeReplica = followState(at, token.value, {
    state (next) {
      batch(() => {
        if (status.value !== 'live') arrived(at)
        latest.value = next
        remember(next)
        arrivals.value++
      })
    },
    over: () => { void lost(at) }
  })
}

/** Known addresses of nodes by install id, as the state does not always contain them. */
const addresses = new Map<string, string>()

function remember ({ nodeIdentities }: State): void {
  // A paired device also received the nodes' addresses during pairing.
  for (const { installId, url } of device.value?.nodes ?? []) note(installId, url)
  for (const { nodeInstallId, apiUrl } of Object.values(nodeIdentities)) note(nodeInstallId, apiUrl)
}

function note (installId: string, url: string | null): void {
  if (url !== null && URL.canParse(url)) addresses.set(installId, new URL(url).origin)
}

function arrived (at: string): void {
  attempts = 0
  failures = 0
  tried = new Set([at])
  status.value = 'live'
}

async function lost (at: string): Promise<void> {
  if (at !== origin.value) return
  attempts++
  failures++
  if (status.value === 'live') status.value = 'lost'
  const counted = signsAt(at)
  // A refused WebSocket carries no reason, so ask with an ordinary request.
  const refused = await refusal()
  if (at !== origin.value) return
  if (refused !== null) {
    // The device was revoked everywhere: connect without it, to see the public part of the state.
    if (counted && !signsAt(at)) return connect()
    const goes = counted
      ? goOn('does not know this device')
      : at !== home && ended.value === null && goOn('wants a token of its own')
    if (goes) return
    batch(() => {
      status.value = 'refused'
      notice.value = ended.value === null ? refused : null
    })
    return
  }
  if (attempts >= ATTEMPTS && goOn('does not answer')) return
  // Random, so that many pages do not return to a restarted node at the same moment.
  const pauseMs = Math.min(AGAIN_MS * 2 ** (failures - 1), LONGEST_MS) * (0.5 + Math.random() / 2)
  timer = setTimeout(connect, pauseMs)
}

async function refusal (): Promise<string | null> {
  try {
    await call('/node_id', { signal: AbortSignal.timeout(3000) })
    return null
  } catch (error) {
    const denied = error instanceof ApiError && (error.status === 401 || error.status === 403)
    return denied ? error.message : null
  }
}

/** Connects to the next live node with a known address. Returns false if there is none. */
function goOn (why: string): boolean {
  const last = latest.value
  const here = origin.value
  tried.add(here)
  const others = nodesOf(last).flatMap(({ live, name, identity }) => {
    const to = addresses.get(identity?.nodeInstallId ?? '')
    return live && to !== undefined ? [{ origin: to, name }] : []
  })
  const next = others.find((one) => !tried.has(one.origin))
  if (next === undefined) {
    tried = new Set()
    return false
  }
  tried.add(next.origin)
  const stays = typed.value === null
    ? ''
    : ` Your token was not sent there: it is good at ${nameAt(last, here)} only.`
  moveTo(next.origin, `${nameAt(last, here)} ${why}. This page goes on at ${next.name}.${stays}`)
  return true
}

const nameAt = (state: State, at: string): string =>
  nodesOf(state).find(({ identity }) => addresses.get(identity?.nodeInstallId ?? '') === at)?.name ?? at

function moveTo (to: string, why: string): void {
  attempts = 0
  batch(() => {
    origin.value = to
    notice.value = why
    status.value = 'connecting'
  })
  timer = setTimeout(connect, 0)
}

/** Sets the token for the current node; an empty one removes it. */
export function useToken (text: string): void {
  const value = text.trim()
  const next = new Map(tokens.value)
  if (value === '') next.delete(origin.value)
  else next.set(origin.value, value)
  batch(() => {
    tokens.value = next
    notice.value = null
    if (status.value === 'refused') status.value = 'connecting'
  })
  connect()
}
