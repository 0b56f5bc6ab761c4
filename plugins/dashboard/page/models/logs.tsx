import { useEffect, useState } from 'preact/hooks'
import { useFollow } from '../happened/follow.js'
import { Lines } from '../happened/logs.js'
import { Live, Refused } from '../happened/parts.js'
import { linkTo } from '../route.js'
import { Button, Empty, Section } from '../ui/parts.js'
import type { Line } from '../happened/logs.js'

const KEPT = 500
const BEGIN_WITH = 100

export function LogsSection ({ modelId }: { modelId: string }) {
  const [open, setOpen] = useState(false)
  const [lines, setLines] = useState<readonly Line[]>([])
  const query = new URLSearchParams({ model: modelId, limit: String(BEGIN_WITH), follow: '1' })
  const path = open ? `/v1/logs/cluster?${query}` : null
  useEffect(() => { setLines([]) }, [path])
  const following = useFollow(path, (batch) => {
    const more = batch.filter(({ type }) => type === 'message').map(({ data }) => JSON.parse(data) as Line)
    setLines((had) => [...had, ...more].slice(-KEPT))
  })
  return (
    <Section
      title="Logs" aside={(
        <>
          {open && <Live following={following} held={0} />}
          <a href={`${linkTo('happened', 'logs')}?model=${encodeURIComponent(modelId)}`}>With all filters</a>
          <Button onClick={() => { setOpen(!open) }}>{open ? 'Stop following' : 'Follow'}</Button>
        </>
      )}
    >
      {!open && <p class="hint">What its runners and nodes write about it, from all nodes, as it comes.</p>}
      {open && <Refused following={following} what="The logs" />}
      {open && following.status !== 'refused' && (lines.length === 0
        ? <Empty title="Nothing was written about it yet. What is logged from now on appears here." />
        : <Lines lines={lines} />)}
    </Section>
  )
}
