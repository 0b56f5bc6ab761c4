import {
  expiryOf, isVerbError, plain, realPace, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { digitComparison, type Comparison } from './compare.js'
import { describe, type DeviceView } from './describe.js'

const LOOK_MS = 500
const CLOSE_MS = 2000
/** Reasons for a failed confirmation after which another device may try. */
const OVER: readonly unknown[] = ['pairing_failed', 'pairing_closed']

interface Waiting { attempt: string, deviceId: string, name: string, digits: string }
interface View { open: boolean, ends: string | null, triesLeft: number, device: Waiting | null }

export default {
  async run (ctx, _args, options) {
    const { client, err, signal } = ctx
    const { check, same } = digitComparison(ctx, options)
    const { ends } = await client.json<View>('/v1/devices/pairing',
      { method: 'POST', body: choiceOf(ctx, options) })
    err.line(`A device can be paired until ${ends!.slice(11, 19)} UTC. On the other machine run: ` +
      `svc device pair ${client.url}`)
    let paired = false
    try {
      for (;;) {
        check()
        const view = await client.json<View>('/v1/devices/pairing')
        if (!view.open) throw ctx.fail(1, 'no device was paired in time; run `svc pair` again')
        paired = view.device !== null && await decide(ctx, view.device, same)
        if (paired) return
        await realPace.pause(LOOK_MS, signal)
        if (signal.aborted) throw ctx.fail(130, 'interrupted')
      }
    } finally {
      // Close the pairing window, so that no device can pair after the operator has left.
      if (!paired) await close(ctx)
    }
  }
} satisfies Verb

/** Asks the operator; returns whether the device was paired. Throws VerbError (1) if the operator says no. */
async function decide (
  ctx: VerbContext, { attempt, digits, name }: Waiting, same: Comparison['same']
): Promise<boolean> {
  const { client, err, out } = ctx
  err.line(`"${plain(name)}" asks to be paired. Its six digits must be ${err.paint('bold', digits)}.`)
  if (!await same(digits, 'Does the device show the same digits?')) {
    await client.json('/v1/devices/pairing/refuse', { method: 'POST', body: { attempt } })
    throw ctx.fail(1, 'refused, and the pairing is closed; run `svc pair` again for another device')
  }
  err.line('waiting for the confirmation of the device')
  const made = await client.json<DeviceView>('/v1/devices/pairing/confirm',
    { method: 'POST', body: { attempt, digits } }).catch((error: unknown) => {
    if (!isVerbError(error) || !OVER.includes(error.api?.reason)) throw error
    err.line(`${error.message}; another device may try while the pairing is open`)
  })
  if (made === undefined) return false
  if (out.json) out.value(made)
  else out.line(describe(made))
  return true
}

/** Closes the window with a new client, because Ctrl-C aborts the verb's own client. */
async function close ({ client: { url, token }, clientFor }: VerbContext): Promise<void> {
  const last = clientFor({ url, token, signal: AbortSignal.timeout(CLOSE_MS) })
  await last.json('/v1/devices/pairing', { method: 'DELETE' }).catch(() => {})
}

function choiceOf (ctx: VerbContext, options: Record<string, unknown>): Record<string, unknown> {
  const expires = options['expires'] as string | undefined
  const offline = options['maxOffline'] as string | undefined
  const at = expires === undefined ? null : expiryOf(expires, Date.now())
  if (expires !== undefined && at === null) {
    throw ctx.fail(2, `--expires ${expires}: expected a duration such as 90d or a date such as 2027-01-31`)
  }
  const span = offline === undefined ? null : expiryOf(offline, 0)
  if (offline !== undefined && span === null) {
    throw ctx.fail(2, `--max-offline ${offline}: expected a duration such as 24h or 7d`)
  }
  const given: [string, unknown][] = [
    ['name', options['name']], ['authorities', options['authorities']], ['viaRelay', options['viaRelay']],
    ['expires', at], ['maxOfflineSeconds', span === null ? null : Date.parse(span) / 1000]
  ]
  return Object.fromEntries(given.filter(([, value]) => value !== undefined && value !== null))
}
