import { RestartDialog } from '../cluster/node-actions.js'
import { nodes } from '../known.js'
import { Opens } from '../ui/parts.js'

export function RestartNotice () {
  const node = nodes.value.find(({ local }) => local)
  return (
    <div class="banner warn" role="status">
      <span>svc.yaml says something else than what is in force: this node has to restart.</span>
      {node && <Opens dialog={(close) => <RestartDialog node={node} onClose={close} />}>Restart it</Opens>}
    </div>
  )
}
