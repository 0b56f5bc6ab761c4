import { ApiError } from '../api.js'
import { device } from '../device/own.js'
import { ask, caller, origin } from '../link.js'
import { Badge, Confirm, Copy, Empty, Opens, Trouble, useAsk } from '../ui/parts.js'
import { day } from '../ui/text.js'
import { ended } from '../ui/toast.js'
import { OwnDevice } from './own-device.js'
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
      {error === null
        ? <All list={value?.devices ?? null} again={again} />
        : isRefused(error)
          ? <p class="hint">Only an operator sees the devices and lets them in.</p>
          : <Trouble error={error} again={again} />}
    </>
  )
}

/** Whether the node refused a request that had no credential, or one without the required authority. */
const isRefused = (error: Error): boolean =>
  error instanceof ApiError && (error.status === 401 || error.status === 403)

function All ({ list, again }: { list: Device[] | null, again: () => void }) {
  return (
    <>
      <div class="inline">
        <Opens
          kind="main" onClosed={again} dialog={(close) => <PairingDialog onClose={close} />}
        >
          Let a device in
        </Opens>
      </div>
      {list?.length === 0 && <Empty title="No device is paired." />}
      <ul class="rows" aria-label="Devices">
        {list?.map((one) => <Row key={one.deviceId} one={one} again={again} />)}
      </ul>
    </>
  )
}

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
        <Opens
          label={`Revoke ${name}`} onClosed={again} dialog={(close) => (
            <Confirm
              title={`Revoke ${name}?`} action="Revoke it" danger onClose={close}
              onConfirm={async () => {
                ended(`${name} is revoked.`, await ask('DELETE /v1/devices/{id}', { params: [deviceId] }))
              }}
            >
              <p>
                Its key never counts again, at any node. What it has open ends within seconds, and so does
                what it has let in.
              </p>
            </Confirm>
          )}
        >
          Revoke
        </Opens>
      )}
    </li>
  )
}
