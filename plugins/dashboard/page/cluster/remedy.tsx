import { useState } from 'preact/hooks'
import { Button, Sentence } from '../ui/parts.js'
import { RemoveDialog, RestartDialog } from './node-actions.js'
import type { ClusterNode, HealthReason } from '../state.js'

/** Problems that a restart of the node fixes. */
const RESTART = new Set(['event_loop_lag', 'state_not_durable', 'version_mismatch', 'event_log_unavailable'])

export function Remedy ({ node, reason }: { node: ClusterNode, reason: HealthReason }) {
  const [open, setOpen] = useState(false)
  const close = (): void => { setOpen(false) }
  const { remediation } = reason
  const words = remediation === null ? null : <p class="remedy"><Sentence text={remediation} /></p>
  if (reason.code === 'unreachable') {
    return (
      <>
        {words}
        <Button onClick={() => { setOpen(true) }}>Remove it</Button>
        {open && <RemoveDialog node={node} onClose={close} />}
      </>
    )
  }
  if (RESTART.has(reason.code)) {
    return (
      <>
        {words}
        <Button onClick={() => { setOpen(true) }}>Restart it</Button>
        {open && <RestartDialog node={node} onClose={close} />}
      </>
    )
  }
  return words
}
