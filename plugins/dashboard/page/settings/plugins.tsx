import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Button, RowText, Trouble } from '../ui/parts.js'
import { done } from '../ui/toast.js'
import { RestartNotice } from '../cluster/node-actions.js'

export function Plugins () {
  const [written, setWritten] = useState(false)
  const { value, error, again } = useAsk('GET /v1/plugins', [])
  if (error !== null) return <Trouble error={error} again={again} />
  const change = async (name: string, enabled: boolean): Promise<void> => {
    await ask('POST /v1/plugins/{name}', { params: [name], body: { enabled } })
    done(`${name} will be ${enabled ? 'on' : 'off'} after a restart.`)
    setWritten(true)
  }
  return (
    <>
      {written && <RestartNotice />}
      <ul class="rows">
        {value?.plugins.map((plugin) => (
          <li key={plugin.name} class="row">
            <RowText hint={<>{plugin.summary}{plugin.why !== null && <><br />{plugin.why}</>}</>}>
              {plugin.name} <span class="hint">{plugin.version}</span>
              <Badge level={plugin.enabled ? 'ok' : 'plain'}>{plugin.enabled ? 'on' : 'off'}</Badge>
            </RowText>
            <Button
              needs="plugin:manage" label={`Switch ${plugin.enabled ? 'off' : 'on'} ${plugin.name}`}
              onClick={async () => { await change(plugin.name, !plugin.enabled) }}
            >
              {plugin.enabled ? 'Switch off' : 'Switch on'}
            </Button>
          </li>
        ))}
      </ul>
    </>
  )
}
