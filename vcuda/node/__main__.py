from vcuda.node.agent import main

raise SystemExit(main())
