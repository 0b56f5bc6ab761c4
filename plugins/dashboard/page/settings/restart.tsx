// Settings that wait for a restart.
import { useState } from 'preact/hooks'
import { RestartDialog } from '../cluster/node-actions.js'
import { state } from '../link.js'
import { nodesOf } from '../state.js'
import { Button } from '../ui/parts.js'

/** Says that this node has to restart, and offers it. */
export function RestartNotice () {
  const [open, setOpen] = useState(false)
  const node = nodesOf(state.value).find(({ local }) => local)
  return (
    <div class="banner warn" role="status">
      <span>svc.yaml says something else than what is in force: this node has to restart.</span>
      {node !== undefined && <Button onClick={() => { setOpen(true) }}>Restart it</Button>}
      {open && node !== undefined && <RestartDialog node={node} onClose={() => { setOpen(false) }} />}
    </div>
  )
}
