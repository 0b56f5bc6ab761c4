import { ApiError } from '../api.js'
import { device, ended as deviceEnded, forget } from '../device/own.js'
import { PairDialog } from '../device/pair.js'
import { ask, caller, connect, origin, typed } from '../link.js'
import { useAsk, useLoaded, useNow } from '../ui/loading.js'
import { Badge, Button, ConfirmButton, Copy, Dialog, Empty, Opens, Trouble, useClose } from '../ui/parts.js'
import { day } from '../ui/text.js'
import { done, ended } from '../ui/toast.js'
import { useRef, useState } from 'preact/hooks'
import { chosenWith, spaced } from '../device/words.js'
import { authorities as known, AuthorityChoice, endAfter, HowLong } from './authorities.js'
import type { Replies } from '../../../../docs/reference/replies.js'

type Device = Replies['GET /v1/devices']['devices'][number]

const WORDS: Record<Device['state'], string> = {
  active: 'active', expired: 'expired', revoked: 'revoked', node_removed: 'its node was removed',
  unheard: 'this node is cut off'
}
const LEVELS: Partial<Record<Device['state'], 'ok' | 'warn'>> = { active: 'ok', unheard: 'warn' }

export function Devices () {
  const { value, error, again } = useAsk('GET /v1/devices', [origin.value, caller.value])
  return (
    <>
      <OwnDevice />
      <h3>Devices of the cluster</h3>
      {error !== null && (isRefused(error)
        ? <p class="hint">Only an operator sees the devices and lets them in.</p>
        : <Trouble error={error} again={again} />)}
      {error === null && (
        <>
          <div class="inline">
            <Opens needs="operator" kind="main" onClosed={again} dialog={<PairingDialog />}>
              Let a device in
            </Opens>
          </div>
          {value?.devices.length === 0 && <Empty title="No device is paired." />}
          <ul class="rows" aria-label="Devices">
            {value?.devices.map((one) => <Row key={one.deviceId} one={one} again={again} />)}
          </ul>
        </>
      )}
    </>
  )
}

function OwnDevice () {
  const kept = device.value
  return (
    <>
      <h3>This device</h3>
      {kept === null
        ? (
            <div class="row">
              <p class="grow hint">
                Paired, it needs no token: it has a key that never leaves this browser, and any node of the
                cluster knows it.
              </p>
              <Opens dialog={<PairDialog />}>Pair this device</Opens>
            </div>
          )
        : (
            <div class="row">
              <div class="grow">
                <p class="row-title">
                  {kept.grant.name}
                  {deviceEnded.value === null
                    ? kept.grant.authorities.map((one) => <Badge key={one}>{one}</Badge>)
                    : <Badge level="error">ended</Badge>}
                </p>
                <p class="hint">
                  {deviceEnded.value ?? `Until ${new Date(kept.grant.expires).toLocaleString()}.`}
                  {typed.value !== null && ' The token that you typed counts here in its place.'}
                </p>
              </div>
              {deviceEnded.value !== null && <Opens dialog={<PairDialog />}>Pair it anew</Opens>}
              <ConfirmButton
                words="Forget this device" title="Forget this device?" action="Forget it" danger
                onConfirm={async () => {
                  await forget(origin.value)
                  done('This device is revoked, and its key is gone.')
                  connect()
                }}
              >
                <p>
                  It is revoked for good at every node, and this browser drops its key. It may be paired anew.
                </p>
              </ConfirmButton>
            </div>
          )}
    </>
  )
}

/** Whether the node refused a request that had no credential, or one without the required authority. */
const isRefused = (error: Error): boolean =>
  error instanceof ApiError && (error.status === 401 || error.status === 403)

function Row ({ one, again }: { one: Device, again: () => void }) {
  const { authorities, by, created, deviceId, expires, lastUsedDay, name, state, viaRelay } = one
  const over = state === 'revoked' || state === 'expired' || state === 'node_removed'
  return (
    <li class="row">
      <div class="grow">
        <p class="row-title">
          {name}
          <Badge level={LEVELS[state] ?? 'plain'}>{WORDS[state]}</Badge>
          {device.value?.deviceId === deviceId && <Badge>this device</Badge>}
          {authorities.map((authority) => <Badge key={authority}>{authority}</Badge>)}
        </p>
        <p class="hint">
          <Copy text={deviceId} shown={deviceId.slice(0, 12)} />
          {!over && ` · over a relay: ${viaRelay.length === 0 ? 'nothing' : viaRelay.join(', ')}`}
          {created !== null && ` · paired ${day(created)}`} by {by.slice(0, 12)}
          {` · ${state === 'expired' ? 'ended' : 'ends'} ${day(expires)}`}
          {` · ${lastUsedDay === null ? 'never used' : `last used ${lastUsedDay}`}`}
        </p>
      </div>
      {state !== 'revoked' && (
        <ConfirmButton
          words="Revoke" label={`Revoke ${name}`} onClosed={again} danger
          title={`Revoke ${name}?`} action="Revoke it" onConfirm={async () => {
            ended(`${name} is revoked.`, await ask('DELETE /v1/devices/{id}', { params: [deviceId] }))
          }}
        >
          <p>
            Its key never counts again, at any node. What it has open ends within seconds, and so does what it
            has let in.
          </p>
        </ConfirmButton>
      )}
    </li>
  )
}

/** Milliseconds between polls for a waiting device. */
const LOOK_MS = 500

type View = Replies['GET /v1/devices/pairing']
type Waiting = NonNullable<View['device']>

/** The operator's side of pairing: opens it, compares six digits, grants the device's authorities. */
function PairingDialog () {
  const done = useClose()
  const { view, error, reopen } = usePairing()
  const close = (): void => {
    // Pairing must end when the operator leaves. If the request fails, pairing times out.
    if (view?.open === true) void ask('DELETE /v1/devices/pairing').catch(() => {})
    done()
  }
  return (
    <Dialog title="Let a device in" onClose={close}>
      {view === null && (
        <div class="dialog-body">
          {error === null ? <p class="waiting">Opening…</p> : <Trouble error={error} />}
        </div>
      )}
      {view?.open === false && (
        <>
          <div class="dialog-body"><p>The time is over, and no device was let in.</p></div>
          <div class="dialog-foot"><Button kind="main" onClick={reopen}>Open it again</Button></div>
        </>
      )}
      {view?.open === true && <Open view={view} onDone={done} />}
    </Dialog>
  )
}

/** Opens a pairing on this node unless one is open, and polls it while it is shown. */
function usePairing () {
  const begun = useRef(false)
  const { value: view, error, again } = useLoaded(async (signal) => {
    const found = await ask('GET /v1/devices/pairing', { signal })
    const opens = !found.open && !begun.current
    begun.current = true
    return opens ? await ask('POST /v1/devices/pairing', { body: {}, signal }) : found
  }, [], LOOK_MS)
  const reopen = (): void => {
    begun.current = false
    again()
  }
  return { view, error, reopen }
}

function Open ({ view, onDone }: { view: View, onDone: () => void }) {
  const { value: all } = useLoaded(known, [])
  const [choice, setChoice] = useState({ authorities: view.authorities ?? [], viaRelay: view.viaRelay ?? [] })
  const [days, setDays] = useState('90')
  const { device } = view
  const now = useNow(LOOK_MS)
  const seconds = Math.max(0, Math.ceil((Date.parse(view.ends!) - now) / 1000))
  const confirm = async ({ attempt, digits, name }: Waiting): Promise<void> => {
    const body = { attempt, digits, ...choice, expires: endAfter(days) }
    await ask('POST /v1/devices/pairing/confirm', { body })
    done(`${name} is paired.`)
    onDone()
  }
  return (
    <>
      <div class="dialog-body form">
        {device === null ? <HowTo tries={view.triesLeft} /> : <Digits device={device} />}
        <p class="hint" role="timer">Open for {seconds} s more.</p>
        <AuthorityChoice
          legend="What it may do" all={all ?? choice.authorities} chosen={choice.authorities}
          onChange={(authorities) => { setChoice(chosenWith(choice, authorities)) }}
        />
        {choice.authorities.length > 0 && (
          <AuthorityChoice
            legend="What of it over a relay" all={choice.authorities} chosen={choice.viaRelay}
            onChange={(viaRelay) => { setChoice({ ...choice, viaRelay }) }}
          />
        )}
        <HowLong days={days} onDays={setDays} last={['365', 'a year']} />
      </div>
      {device !== null && (
        <div class="dialog-foot">
          <Button
            kind="danger" onClick={async () => {
              await ask('POST /v1/devices/pairing/refuse', { body: { attempt: device.attempt } })
            }}
          >
            They differ: refuse it
          </Button>
          <Button kind="main" onClick={async () => { await confirm(device) }}>
            They are the same: let it in
          </Button>
        </div>
      )}
    </>
  )
}

const HowTo = ({ tries }: { tries: number }) => (
  <p>
    On the device open <code>{origin.value}</code> and choose “Pair this device”, or run{' '}
    <code>svc device pair {origin.value}</code>. {tries === 1 ? 'One device' : `${tries} devices`} may try.
  </p>
)

const Digits = ({ device: { digits, name } }: { device: Waiting }) => (
  <>
    <p><strong>{name}</strong> wants to be paired. It has to show the same six digits, and to say so:</p>
    <p class="digits" role="status" aria-label="Six digits">{spaced(digits)}</p>
  </>
)
