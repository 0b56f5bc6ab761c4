import { device, ended, forget } from '../device/own.js'
import { PairDialog } from '../device/pair.js'
import { connect, origin, typed } from '../link.js'
import { Badge, Confirm, Opens } from '../ui/parts.js'
import { done } from '../ui/toast.js'

const pair = (close: () => void) => <PairDialog onClose={close} />

export function OwnDevice () {
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
              <Opens dialog={pair}>Pair this device</Opens>
            </div>
          )
        : (
            <div class="row">
              <div class="grow">
                <p class="row-title">
                  {kept.grant.name}
                  {ended.value === null
                    ? kept.grant.authorities.map((one) => <Badge key={one}>{one}</Badge>)
                    : <Badge level="error">ended</Badge>}
                </p>
                <p class="hint">
                  {ended.value ?? `Until ${new Date(kept.grant.expires).toLocaleString()}.`}
                  {typed.value !== null && ' The token that you typed counts here in its place.'}
                </p>
              </div>
              {ended.value !== null && <Opens dialog={pair}>Pair it anew</Opens>}
              <Opens
                dialog={(close) => (
                  <Confirm
                    title="Forget this device?" action="Forget it" danger onClose={close}
                    onConfirm={async () => {
                      await forget(origin.value)
                      done('This device is revoked, and its key is gone.')
                      connect()
                    }}
                  >
                    <p>
                      It is revoked for good at every node, and this browser drops its key. It may be paired
                      anew.
                    </p>
                  </Confirm>
                )}
              >
                Forget this device
              </Opens>
            </div>
          )}
    </>
  )
}
