import { ApiError } from '../api.js'
import { device, ended as deviceEnded, forget } from '../device/own.js'
import { PairDialog } from '../device/pair.js'
import { ask, caller, connect, origin, typed } from '../link.js'
import { useAsk } from '../ui/loading.js'
import { Badge, ConfirmButton, Copy, Empty, Opens, Trouble } from '../ui/parts.js'
import { day } from '../ui/text.js'
import { done, ended } from '../ui/toast.js'
import { PairingDialog } from './pairing.js'
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
